#!/usr/bin/env python3
"""Names of the field (PyTorch's, Keras', Optax', Flax') in a document: what stepc suggests is the same thing, or nothing, and
--fix writes only what is certain. Every name is tried where it could stand.

    tests/cli/names.py STEPC
"""
import concurrent.futures
import json
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

SGD = {"type": "sgd", "learning_rate": 0.1}
DENSE = {"type": "linear", "features": 4, "input": "x"}


def document(**more):
    return {"stepc": 1, "inputs": {"x": {"shape": [4, 3]}}, "model": DENSE, "loss": "mean(model**2)", "optimizer": SGD, **more}


PLACES = {
    "optimizer": lambda name: document(optimizer={"type": name, "learning_rate": 0.1}),
    "layer": lambda name: document(model={"type": "sequential", "input": "x", "layers": [{"type": name}]}),
    "loss": lambda name: document(loss={"type": name, "logits": "model", "labels": "x", "reduction": "mean"}),
    "function": lambda name: document(loss="mean(%s(model))" % name),
    "dtype": lambda name: document(inputs={"x": {"shape": [4, 3], "dtype": name}}),
    "initializer": lambda name: document(model={**DENSE, "kernel_init": {"type": name}}),
    "schedule": lambda name: document(optimizer={**SGD, "learning_rate": {"type": name}}),
}
# Those that --fix writes: nothing but case and separators is different.
SURE = {"optimizer": "AdamW:adamw Adam:adam NAdam:nadam RAdam:radam RMSProp:rmsprop SGD:sgd LBFGS:lbfgs NAdamW:nadamw AdamaxW:adamaxw DoWG:dowg adam_w:adamw SignSGD:sign_sgd",
        "layer": "LayerNorm:layer_norm ReLU6:relu6 LeakyReLU:leaky_relu LSTMCell:lstm_cell LogSigmoid:log_sigmoid Softsign:soft_sign", "loss": "CTCLoss:ctc_loss NTXent:ntxent L2Loss:l2_loss",
        "function": "ReLU:relu Log1p:log1p", "initializer": "HeNormal:he_normal LeCunNormal:lecun_normal",
        "schedule": "CosineDecaySchedule:cosine_decay_schedule ExponentialDecay:exponential_decay"}
# Those that are only shown: the same thing under another name, and all dtypes.
SHOWN = {"dtype": """Float16:float16 float_16:float16 FLOAT32:float32 BFloat16:bfloat16 Int8:int8 bool_:bool float:float32 single:float32 fp32:float32 f32:float32 half:float16 Half:float16 fp16:float16 f16:float16 double:float64 Double:float64 fp64:float64 f64:float64 bf16:bfloat16 BF16:bfloat16
             int:int32 i32:int32 long:int64 short:int16 byte:uint8 char:int8 boolean:bool""",
         "layer": """Dense:linear DenseGeneral:linear_general Embedding:embed MultiHeadDotProductAttention:multi_head_attention Conv1d:conv Conv2d:conv Conv3d:conv Conv1D:conv Conv2D:conv BatchNorm1d:batch_norm
             BatchNorm2d:batch_norm BatchNorm3d:batch_norm BatchNormalization:batch_norm LayerNormalization:layer_norm GroupNormalization:group_norm RMSNormalization:rms_norm InstanceNorm1d:instance_norm
             InstanceNorm2d:instance_norm ConvTranspose1d:conv_transpose ConvTranspose2d:conv_transpose ConvTranspose3d:conv_transpose MaxPool1d:max_pool MaxPool2d:max_pool MaxPool2D:max_pool MaxPooling2D:max_pool
             AvgPool1d:avg_pool AvgPool2d:avg_pool AveragePooling2D:avg_pool""",
         "loss": "CrossEntropyLoss:softmax_cross_entropy_with_integer_labels BCEWithLogitsLoss:sigmoid_binary_cross_entropy MSELoss:squared_error MSE:squared_error MeanSquaredError:squared_error",
         "initializer": "zero:zeros one:ones constants:constant zeros_init:zeros ones_init:ones",
         "schedule": "CosineDecay:cosine_decay_schedule LinearOnecycle:linear_onecycle_schedule",
         "function": "unsqueeze:expand_dims bmm:matmul mm:matmul cat:concatenate reduce_mean:mean meadian:median"}
NAMES = {
    "optimizer": """Adam AdamW Adamax AdamaxW NAdam NAdamW RAdam SparseAdam ASGD SGD SGDW RMSprop RMSProp Rprop Adagrad Adadelta Adafactor AdaFactor LBFGS Lion Lamb LAMB Lars LARS
        Ftrl Nadam LossScaleOptimizer AMSGrad AdaBelief Adabelief AdaBound AdaMod AdamP SGDP QHAdam QHM Yogi NovoGrad Novograd Fromage NoisySGD SM3 Shampoo Sophia SophiaG SophiaH Muon Muown
        Prodigy DAdaptAdam DAdaptAdaGrad DAdaptLion DAdaptAdamW DAdaptation CAME Adan Apollo MADGRAD Ranger Ranger21 LookAhead Lookahead SAM GSAM ASAM SWATS Padam AggMo DiffGrad
        Adam8bit AdamW8bit PagedAdamW Lion8bit CPUAdam FusedAdam FusedLAMB DistributedShampoo OptimisticAdam OptimisticAdamW OptimisticGradientDescent PolyakSGD Amos SOAP Grokfast
        ScheduleFree AdEMAMix AdEMAMixW SimplifiedAdEMAMix ADOPT COCOB CocoB DoG DoWG LDoG MomoAdam Momo AcProp AMSGradW GradientDescent ProximalAdagrad Adamw adam_w Nesterov SGDM signSGD SignSGD SignDescent
        RMSpropW Adagradw Laprop PSGD Kate Tiger Rotograd""",
    "layer": """Linear Bilinear LazyLinear Identity Embedding EmbeddingBag Embed Dense DenseGeneral LinearGeneral Einsum EinsumDense Conv Conv1d Conv2d Conv3d Conv1D Conv2D ConvTranspose
        ConvTranspose1d ConvTranspose2d ConvTranspose3d Conv2DTranspose SeparableConv2D DepthwiseConv2D LayerNorm LayerNormalization BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d
        BatchNormalization SyncBatchNorm GroupNorm GroupNormalization InstanceNorm InstanceNorm1d InstanceNorm2d RMSNorm RMSNormalization LocalResponseNorm SpectralNorm SpectralNormalization
        WeightNorm UnitNormalization Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout SpatialDropout1D SpatialDropout2D GaussianDropout GaussianNoise ActivityRegularization
        MultiHeadAttention MultiheadAttention MultiHeadDotProductAttention GroupQueryAttention Attention AdditiveAttention RNN LSTM GRU LSTMCell GRUCell SimpleCell SimpleRNN SimpleRNNCell
        OptimizedLSTMCell ConvLSTM ConvLSTM2D ConvLSTMCell RNNCell Bidirectional TimeDistributed MaxPool MaxPool1d MaxPool2d MaxPool2D MaxPooling2D AvgPool AvgPool1d AvgPool2d AveragePooling2D MinPool
        AdaptiveAvgPool2d AdaptiveMaxPool2d GlobalAveragePooling2D GlobalMaxPooling2D LPPool2d FractionalMaxPool2d MaxUnpool2d Flatten Unflatten Reshape Permute RepeatVector Masking Lambda
        Sequential ModuleList ModuleDict Residual Upsample UpSampling2D PixelShuffle ZeroPad2d ZeroPadding2D ReflectionPad2d Fold Unfold ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU
        Swish Mish Softplus Softsign Softmax Softmax2d Softmin LogSoftmax Sigmoid LogSigmoid Tanh Tanhshrink Hardtanh Hardsigmoid Hardswish HardSigmoid HardSwish HardSiLU HardTanh Hardshrink
        Softshrink Threshold ThresholdedReLU GLU SwiGLU GeGLU ReGLU QuickGELU Maxout Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder LoRA LoRALinear Remat Checkpoint Scan Squareplus
        LogicalNot SoftSign Sparsemax SparsePlus SparseSigmoid Gelu Relu Elu Selu LogSumExp Standardize OneHot CausalConv1d StochasticDepth DropPath""",
    "loss": """CrossEntropyLoss NLLLoss PoissonNLLLoss GaussianNLLLoss KLDivLoss BCELoss BCEWithLogitsLoss MarginRankingLoss HingeEmbeddingLoss MultiLabelMarginLoss HuberLoss SmoothL1Loss
        SoftMarginLoss MultiLabelSoftMarginLoss CosineEmbeddingLoss MultiMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss CTCLoss L1Loss L2Loss MSELoss MSE MAE MeanSquaredError
        MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredLogarithmicError CosineSimilarity BinaryCrossentropy CategoricalCrossentropy SparseCategoricalCrossentropy KLDivergence Poisson
        LogCosh Hinge SquaredHinge CategoricalHinge Dice Tversky BinaryFocalCrossentropy CategoricalFocalCrossentropy FocalLoss SigmoidFocalLoss DiceLoss NTXent InfoNCE L1_loss SquaredError
        SoftmaxCrossEntropy SoftmaxCrossEntropyWithIntegerLabels SoftmaxCrossEntropyWithLogits SigmoidBinaryCrossEntropy SigmoidCrossEntropy SafeSoftmaxCrossEntropy PolyLossCrossEntropy
        KLDivergenceWithLogTargets ConvexKLDivergence JSDivergence MulticlassHingeLoss MulticlassPerceptronLoss PerceptronLoss HingeLoss RankingSoftmaxLoss RankingSigmoidLoss CTCLossWithForwardProbs
        SparsemaxLoss MulticlassSparsemaxLoss CosineDistance TripletLoss ContrastiveLoss ArcFace GeneralizedKLDivergence ComputeWeightedCrossEntropy BinaryDiceLoss MulticlassGeneralizedDiceLoss""",
    "function": """ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Swish Softplus Softsign Softmax Softmin LogSoftmax Sigmoid LogSigmoid Tanh Hardtanh Hardsigmoid Hardswish Tanhshrink Softshrink Hardshrink
        Log Log2 Log10 Log1p Exp Exp2 Expm1 Sqrt Rsqrt Cbrt Square Abs Mean Sum Max Min Prod Std Var LogSumExp log1 log3 log_base exp10 exp1p arctan atan atan2 arctan2 arcsin asin arcsinh erfcx erfi ierf erfcinv
        mean_all sumsq nansum nanmean nanmedian median meadian average reduce_mean reduce_sum reduce_max cumsum cumprod cummax cummin cumlogsumexp logcumsumexp sinc sind cosd tand sincos sec csc cot secant
        gammaln lgamma digamma polygamma trigamma zeta beta betaln bessel_i0 i0 i1 j0 j1 k0 y0 i0e logit expit soft_max entr entropy xlogy xlog1py rel_entr kl_div lerp clamp clip_by_value fmax fmin hypot
        argmax argmin topk top_k sort argsort unique where select isnan isinf isfinite isclose allclose dot matmul vdot inner outer einsum tensordot bmm mm addmm baddbmm norm vector_norm matrix_norm
        cross diag diagonal trace det slogdet inv pinv solve cholesky qr svd eigh eig lu expm logm sqrtm roll flip rot90 rotate permute transpose swapaxes reshape view expand squeeze unsqueeze stack concat cat hstack vstack""",
    "dtype": """float float16 Float16 float_16 FLOAT32 float32 float64 float128 float8 float8_e4m3fn float8_e5m2 bfloat16 BFloat16 bfloat bf16 BF16 fp16 fp32 fp64 fp8 f16 f32 f64 half Half double Double single tf32
        int int4 int8 Int8 int16 int32 int64 int128 uint uint1 uint2 uint4 uint8 UInt8 uint16 uint32 uint64 int2 i8 i32 i64 u8 u32 long short byte char bool Bool boolean bool_ complex complex64 complex128 string str object qint8
        torch.float32 jnp.float32 tf.float32 np.float64""",
    "initializer": """Zeros Ones Constant Normal Uniform TruncatedNormal XavierUniform XavierNormal xavier_uniform_ xavier_normal_ GlorotUniform GlorotNormal HeUniform HeNormal KaimingUniform KaimingNormal
        kaiming_normal_ LecunUniform LecunNormal LeCunNormal VarianceScaling Orthogonal DeltaOrthogonal Identity Eye Dirac Sparse RandomNormal RandomUniform random_normal random_uniform trunc_normal_ zero one constants zeros_ ones_
        zeros_init ones_init glorot xavier he kaiming lecun ScaledNormal orthogonal_ semi_orthogonal""",
    "schedule": """ConstantLR ConstantSchedule LinearLR LinearSchedule LinearOnecycle LinearOnecycleSchedule ExponentialLR ExponentialDecay CosineAnnealingLR CosineAnnealingWarmRestarts CosineDecay CosineDecaySchedule
        CosineDecayRestarts StepLR MultiStepLR PiecewiseConstantDecay PiecewiseConstantSchedule PiecewiseInterpolateSchedule PolynomialLR PolynomialDecay PolynomialSchedule InverseTimeDecay LambdaLR OneCycleLR
        CosineOnecycleSchedule CyclicLR ReduceLROnPlateau ReduceOnPlateau SequentialLR ChainedScheduler WarmupCosineDecaySchedule WarmupConstantSchedule WarmupExponentialDecaySchedule JoinSchedules
        SGDRSchedule sgdr InjectHyperparams WarmupLinearDecaySchedule LinearWarmup CosineWarmup WarmupStableDecay WSD InverseSqrt rsqrt constant linear cosine exponential polynomial step""",
}


def plain(name):
    """Without separators, and what stands before a dot: torch.float32 is float32."""
    return re.sub("[_-]", "", name.rsplit(".", 1)[-1]).lower()


class Names(runner.Case):
    def suggested(self, job):
        """(what is suggested, whether --fix writes it); (True, True): the name is one."""
        place, name = job
        path = os.path.join(self.folder, "%s-%s.json" % (place, name))
        runner.write_json(path, PLACES[place](name))
        done = runner.attempt(self.program, "check", path, "--diagnostics", "json")
        for line in done.stderr.splitlines():
            d = json.loads(line) if line.startswith("{") else {}
            if '"%s"' % name not in d.get("message", ""):
                continue
            if "nknown" not in d["message"] and "no function" not in d["message"]:
                continue
            meant = re.search(r'did you mean "([^"]*)"', d["spans"][0].get("label") or "")
            return meant and meant[1], "fix" in d
        return True, True

    def test_names(self):
        listed = [{(place, pair.split(":")[0]): pair.split(":")[1] for place, pairs in table.items() for pair in pairs.split()} for table in (SURE, SHOWN)]
        jobs = [(place, name) for place, names in NAMES.items() for name in names.split()]
        self.assertLessEqual(set(listed[0]) | set(listed[1]), set(jobs))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for job, (suggested, fixed) in zip(jobs, pool.map(self.suggested, jobs)):
                with self.subTest(job):
                    if job in listed[0]:
                        self.assertEqual((suggested, fixed), (listed[0][job], True))
                    elif job in listed[1]:
                        self.assertEqual((suggested, fixed), (listed[1][job], False))
                    elif suggested and suggested is not True:
                        self.assertEqual(plain(suggested), plain(job[1]))


if __name__ == "__main__":
    runner.main()
