extern "C" __global__ void __launch_bounds__(256, 2) kernel_0(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *__restrict__ b3, unsigned short *__restrict__ b4, long long lo, long long hi)
{
    stepc_escape(b3);
    stepc_escape(b4);
    __shared__ __align__(1024) unsigned b5[4096];
    __shared__ __align__(1024) unsigned b6[4096];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const unsigned v6 = (unsigned)0ll;
    const int v7 = (int)4ll;
    const int v12 = (int)200ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v178 = (int)32ll;
    const int v187 = (int)80ll;
    const float v195 = 2.0f;
    const float v199 = 0.000031232834f;
    const float v206 = 1.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v6;
        unsigned r2[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r2[i] = v6;
        #pragma unroll
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v8 = (int)(i2);
                const int v9 = stepc_rem(v8, v7);
                const int v10 = stepc_div(v8, v7);
                const int v11 = (int)(64ll * i1 + (long long)v10 + 128ll * (long long)v4);
                const bool v13 = v11 < v12;
                const auto wide14 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v11 + 8ll * (long long)v9)), v13);
                const unsigned v22 = wide14.item[0];
                r1[4ll * i1] = v22;
                const unsigned v30 = wide14.item[1];
                r1[4ll * i1 + 1] = v30;
                const unsigned v38 = wide14.item[2];
                r1[4ll * i1 + 2] = v38;
                const unsigned v46 = wide14.item[3];
                r1[4ll * i1 + 3] = v46;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 2ll; i3++) {
             {
                const long long i4 = 0;
                 {
                    const long long i5 = thread;
                    const int v48 = (int)(i5);
                    const int v49 = stepc_rem(v48, v47);
                    const int v50 = stepc_div(v48, v47);
                    const int v51 = (int)(8ll * i3 + (long long)v49 + 16ll * (long long)v3);
                    const bool v53 = v51 < v52;
                    const auto wide54 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v51 + 160ll * (long long)v50)), v53);
                    const unsigned v61 = wide54.item[0];
                    r2[4ll * i3] = v61;
                    const unsigned v69 = wide54.item[1];
                    r2[4ll * i3 + 1] = v69;
                    const unsigned v77 = wide54.item[2];
                    r2[4ll * i3 + 2] = v77;
                    const unsigned v85 = wide54.item[3];
                    r2[4ll * i3 + 3] = v85;
                }
            }
        }
        #pragma unroll 1
        for (long long i6 = 0; i6 < 3ll; i6++) {
            const int v86 = (int)(i6);
            const int v87 = stepc_rem(v86, v1);
            #pragma unroll
            for (long long i7 = 0; i7 < 2ll; i7++) {
                 {
                    const long long i8 = thread;
                    const int v88 = (int)(i8);
                    const int v89 = stepc_rem(v88, v7);
                    const int v90 = stepc_div(v88, v7);
                    const unsigned v91 = r1[4ll * i7];
                    b5[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b5[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b5[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b5[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 3] = v94;
                }
            }
            #pragma unroll
            for (long long i9 = 0; i9 < 2ll; i9++) {
                 {
                    const long long i10 = 0;
                     {
                        const long long i11 = thread;
                        const int v95 = (int)(i11);
                        const int v96 = stepc_rem(v95, v47);
                        const int v97 = stepc_div(v95, v47);
                        const unsigned v98 = r2[4ll * i9];
                        b6[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b6[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b6[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b6[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b5 + (2048ll * (long long)v87), b6 + (2048ll * (long long)v87));
            const bool v102 = v86 < v1;
            const int v103 = (int)(i6 + 1);
            if (v102) {
                #pragma unroll
                for (long long i12 = 0; i12 < 2ll; i12++) {
                     {
                        const long long i13 = thread;
                        const int v104 = (int)(i13);
                        const int v105 = stepc_rem(v104, v7);
                        const int v106 = stepc_div(v104, v7);
                        const int v107 = (int)(64ll * i12 + (long long)v106 + 128ll * (long long)v4);
                        const bool v108 = v107 < v12;
                        const auto wide109 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v107 + 8ll * (long long)v105 + 32ll * (long long)v103)), v108);
                        const unsigned v116 = wide109.item[0];
                        r1[4ll * i12] = v116;
                        const unsigned v124 = wide109.item[1];
                        r1[4ll * i12 + 1] = v124;
                        const unsigned v132 = wide109.item[2];
                        r1[4ll * i12 + 2] = v132;
                        const unsigned v140 = wide109.item[3];
                        r1[4ll * i12 + 3] = v140;
                    }
                }
                #pragma unroll
                for (long long i14 = 0; i14 < 2ll; i14++) {
                     {
                        const long long i15 = 0;
                         {
                            const long long i16 = thread;
                            const int v141 = (int)(i16);
                            const int v142 = stepc_rem(v141, v47);
                            const int v143 = stepc_div(v141, v47);
                            const int v144 = (int)(8ll * i14 + (long long)v142 + 16ll * (long long)v3);
                            const bool v145 = v144 < v52;
                            const auto wide146 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v144 + 160ll * (long long)v143 + 5120ll * (long long)v103)), v145);
                            const unsigned v153 = wide146.item[0];
                            r2[4ll * i14] = v153;
                            const unsigned v161 = wide146.item[1];
                            r2[4ll * i14 + 1] = v161;
                            const unsigned v169 = wide146.item[2];
                            r2[4ll * i14 + 2] = v169;
                            const unsigned v177 = wide146.item[3];
                            r2[4ll * i14 + 3] = v177;
                        }
                    }
                }
            }
        }
        stepc_warpgroup_wait<64>(r0);
        __syncthreads();
         {
            const long long i17 = 0;
            #pragma unroll
            for (long long i18 = 0; i18 < 2ll; i18++) {
                #pragma unroll
                for (long long i19 = 0; i19 < 16ll; i19++) {
                     {
                        const long long i20 = 0;
                         {
                            const long long i21 = thread;
                            const int v179 = (int)(i21);
                            const int v180 = stepc_div(v179, v178);
                            const int v181 = stepc_div(v179, v7);
                            const int v182 = stepc_rem(v181, v47);
                            const int v183 = stepc_rem(v179, v7);
                            const int v184 = (int)(8ll * i18 + 16ll * (long long)v180 + (long long)v182 + 128ll * (long long)v4);
                            const bool v185 = v184 < v12;
                            const int v186 = (int)(4ll * i19 + (long long)v183 + 64ll * (long long)v3);
                            const bool v188 = v186 < v187;
                            const bool v189 = v185 && v188;
                            const float v190 = r0[2ll * i18 + 4ll * i19];
                            const float v191 = stepc_bf16_round((float)v190);
                            const auto wide192 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v186)), v189);
                            const float v192 = stepc_bf16_value(stepc_half<0>(wide192.item[0]));
                            const float v193 = stepc_bf16_add(v191, v192);
                            const float v194 = stepc_bf16_round(tanhf(v193));
                            const float v196 = stepc_bf16_mul(v194, v195);
                            const float v197 = stepc_bf16_round(cosf(v196));
                            const float v198 = stepc_bf16_mul(v196, v197);
                            const float v200 = stepc_bf16_mul(v199, v197);
                            const float v201 = stepc_bf16_mul(v199, v196);
                            const float v202 = stepc_bf16_round(sinf(v196));
                            const float v203 = stepc_bf16_mul(v201, v202);
                            const float v204 = stepc_bf16_sub(v200, v203);
                            const float v205 = stepc_bf16_mul(v204, v195);
                            const float v207 = stepc_bf16_sub(v206, v194);
                            const float v208 = stepc_bf16_mul(v205, v207);
                            const float v209 = stepc_bf16_mul(v208, v194);
                            const float v210 = stepc_bf16_add(v208, v209);
                            const float v211 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v212 = stepc_bf16_round((float)v211);
                            const float v213 = stepc_bf16_value(stepc_half<1>(wide192.item[0]));
                            const float v214 = stepc_bf16_add(v212, v213);
                            const float v215 = stepc_bf16_round(tanhf(v214));
                            const float v216 = stepc_bf16_mul(v215, v195);
                            const float v217 = stepc_bf16_round(cosf(v216));
                            const float v218 = stepc_bf16_mul(v216, v217);
                            const float v219 = stepc_bf16_mul(v199, v217);
                            const float v220 = stepc_bf16_mul(v199, v216);
                            const float v221 = stepc_bf16_round(sinf(v216));
                            const float v222 = stepc_bf16_mul(v220, v221);
                            const float v223 = stepc_bf16_sub(v219, v222);
                            const float v224 = stepc_bf16_mul(v223, v195);
                            const float v225 = stepc_bf16_sub(v206, v215);
                            const float v226 = stepc_bf16_mul(v224, v225);
                            const float v227 = stepc_bf16_mul(v226, v215);
                            const float v228 = stepc_bf16_add(v226, v227);
                            stepc_few<unsigned short, 2> run3_198;
                            run3_198.item[0] = stepc_bf16_bits(v198);
                            stepc_few<unsigned short, 2> run4_210;
                            run4_210.item[0] = stepc_bf16_bits(v210);
                            run3_198.item[1] = stepc_bf16_bits(v218);
                            stepc_store_whole(b3 + (2ll * (long long)v186 + 160ll * (long long)v184), run3_198, v189);
                            run4_210.item[1] = stepc_bf16_bits(v228);
                            stepc_store_whole(b4 + (2ll * (long long)v186 + 160ll * (long long)v184), run4_210, v189);
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_1(const unsigned short *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    __shared__ double folded[32];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        for (long long from = thread * 8; from < 6400ll; from += 8192) {
            const long long i1 = from;
            const auto few2 = stepc_load_whole<8>(b0 + (6400ll * i0 + i1), true);
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                const long long i1 = from + k;
                const float v2 = stepc_bf16_value(few2.item[k]);
                const float v3 = (float)v2;
                r0[0] = r0[0] + v3;
            }
        }
        const float v4 = stepc_fold<1024>(folded, r0[0], [](float x, float y) -> float { return x + y; });
        if (thread == 0) b1[i0] = v4;
    }
}

extern "C" __global__ void __launch_bounds__(32) kernel_2(const float *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    if (thread < 5) {
        const long long i0 = thread;
        const float v2 = b0[i0];
        r0[0] = r0[0] + v2;
    }
    const float v3 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return x + y; });
    const float v4 = 32000.0f;
    const float v5 = v3 / v4;
    if (thread == 0) b1[0] = v5;
}

extern "C" __global__ void __launch_bounds__(128) kernel_3(const unsigned short *__restrict__ b0, unsigned short *__restrict__ b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const int v3 = (int)160ll;
    const int v6 = (int)0ll;
    const int v8 = (int)200ll;
    for (long long at = lo + blockIdx.x; at < hi; at += gridDim.x) {
        const long long i0 = (unsigned)at / 2;
        const long long i1 = (unsigned)at / 1 % 2;
         {
            float r0[1];
            for (int i = 0; i < 1; i++) r0[i] = v1;
            #pragma unroll 8
            for (long long i2 = 0; i2 < 32ll; i2++) {
                const int v5 = (int)(32ll * i0 + i2 - 12);
                const bool v7 = v6 <= v5;
                const bool v9 = v5 < v8;
                const bool v10 = v7 && v9;
                 {
                    const long long i3 = 0;
                     {
                        const long long i4 = thread;
                        const int v2 = (int)(128ll * i1 + i4);
                        const bool v4 = v2 < v3;
                        const bool v11 = v10 && v4;
                        const float v12 = v11 ? stepc_bf16_value(b0[5120ll * i0 + 128ll * i1 + 160ll * i2 + i4 - 1920]) : (float)0;
                        const float v13 = v10 ? v12 : v1;
                        r0[0] = stepc_bf16_add(r0[0], v13);
                    }
                }
            }
             {
                const long long i5 = 0;
                __syncthreads();
                 {
                    const long long i6 = thread;
                    const int v14 = (int)(128ll * i1 + i6);
                    const bool v15 = v14 < v3;
                    const float v16 = r0[0];
                    if (v15) b1[160ll * i0 + 128ll * i1 + i6] = stepc_bf16_bits(v16);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) kernel_4(const unsigned short *b0, const double *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *b3, long long lo, long long hi, volatile unsigned *flag)
{
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const int v3 = (int)160ll;
    const double v10 = b1[0];
    const double v11 = -v10;
    const float v12 = stepc_bf16_round((float)v11);
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        for (long long i1 = 0; i1 < 7ll; i1++) {
             {
                const long long i2 = 0;
                 {
                    const long long i3 = thread;
                    const int v2 = (int)(128ll * i0 + i3);
                    const bool v4 = v2 < v3;
                    const float v5 = v4 ? stepc_bf16_value(b2[128ll * i0 + 160ll * i1 + i3]) : (float)0;
                    r0[0] = stepc_bf16_add(r0[0], v5);
                }
            }
        }
         {
            const long long i4 = 0;
             {
                const long long i5 = thread;
                const int v6 = (int)(128ll * i0 + i5);
                const bool v7 = v6 < v3;
                const float v8 = r0[0];
                const float v9 = v7 ? stepc_bf16_value(b0[128ll * i0 + i5]) : (float)0;
                const float v13 = stepc_bf16_mul(v12, v8);
                const float v14 = stepc_bf16_add(v9, v13);
                if (v7) { b3[128ll * i0 + i5] = stepc_bf16_bits(v14); bad |= stepc_not_finite(v14); }
            }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(256, 2) kernel_5(const unsigned short *__restrict__ b0, const unsigned short *b1, const double *__restrict__ b2, const unsigned short *__restrict__ b3, unsigned short *b4, long long lo, long long hi, volatile unsigned *flag)
{
    __shared__ __align__(1024) unsigned b5[4096];
    __shared__ __align__(1024) unsigned b6[4096];
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const unsigned v2 = (unsigned)0ll;
    const int v3 = (int)8ll;
    const int v8 = (int)12ll;
    const int v47 = (int)20ll;
    const int v81 = (int)2ll;
    const int v98 = (int)6ll;
    const int v107 = (int)200ll;
    const int v182 = (int)32ll;
    const int v185 = (int)4ll;
    const int v190 = (int)96ll;
    const int v193 = (int)80ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v1;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v2;
        unsigned r2[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r2[i] = v2;
        #pragma unroll
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = 0;
                 {
                    const long long i3 = thread;
                    const int v4 = (int)(i3);
                    const int v5 = stepc_rem(v4, v3);
                    const int v6 = stepc_div(v4, v3);
                    const int v7 = (int)(8ll * i1 + (long long)v5);
                    const bool v9 = v7 < v8;
                    const auto wide10 = stepc_load_whole<4>((const unsigned *)(b0 + (8ll * (long long)v7 + 96ll * (long long)v6)), v9);
                    const unsigned v18 = wide10.item[0];
                    r1[4ll * i1] = v18;
                    const unsigned v26 = wide10.item[1];
                    r1[4ll * i1 + 1] = v26;
                    const unsigned v34 = wide10.item[2];
                    r1[4ll * i1 + 2] = v34;
                    const unsigned v42 = wide10.item[3];
                    r1[4ll * i1 + 3] = v42;
                }
            }
        }
        #pragma unroll
        for (long long i4 = 0; i4 < 2ll; i4++) {
             {
                const long long i5 = 0;
                 {
                    const long long i6 = thread;
                    const int v43 = (int)(i6);
                    const int v44 = stepc_rem(v43, v3);
                    const int v45 = stepc_div(v43, v3);
                    const int v46 = (int)(16ll * i0 + 8ll * i4 + (long long)v44);
                    const bool v48 = v46 < v47;
                    const auto wide49 = stepc_load_whole<4>((const unsigned *)(b3 + (8ll * (long long)v46 + 160ll * (long long)v45)), v48);
                    const unsigned v56 = wide49.item[0];
                    r2[4ll * i4] = v56;
                    const unsigned v64 = wide49.item[1];
                    r2[4ll * i4 + 1] = v64;
                    const unsigned v72 = wide49.item[2];
                    r2[4ll * i4 + 2] = v72;
                    const unsigned v80 = wide49.item[3];
                    r2[4ll * i4 + 3] = v80;
                }
            }
        }
        #pragma unroll 1
        for (long long i7 = 0; i7 < 7ll; i7++) {
            const int v82 = (int)(i7);
            const int v83 = stepc_rem(v82, v81);
            #pragma unroll
            for (long long i8 = 0; i8 < 2ll; i8++) {
                 {
                    const long long i9 = 0;
                     {
                        const long long i10 = thread;
                        const int v84 = (int)(i10);
                        const int v85 = stepc_rem(v84, v3);
                        const int v86 = stepc_div(v84, v3);
                        const unsigned v87 = r1[4ll * i8];
                        b5[stepc_swizzled<128>(4ll * (long long)v85 + 32ll * (long long)v86) + 1024ll * i8 + 2048ll * (long long)v83] = v87;
                        const unsigned v88 = r1[4ll * i8 + 1];
                        b5[stepc_swizzled<128>(4ll * (long long)v85 + 32ll * (long long)v86) + 1024ll * i8 + 2048ll * (long long)v83 + 1] = v88;
                        const unsigned v89 = r1[4ll * i8 + 2];
                        b5[stepc_swizzled<128>(4ll * (long long)v85 + 32ll * (long long)v86) + 1024ll * i8 + 2048ll * (long long)v83 + 2] = v89;
                        const unsigned v90 = r1[4ll * i8 + 3];
                        b5[stepc_swizzled<128>(4ll * (long long)v85 + 32ll * (long long)v86) + 1024ll * i8 + 2048ll * (long long)v83 + 3] = v90;
                    }
                }
            }
            #pragma unroll
            for (long long i11 = 0; i11 < 2ll; i11++) {
                 {
                    const long long i12 = 0;
                     {
                        const long long i13 = thread;
                        const int v91 = (int)(i13);
                        const int v92 = stepc_rem(v91, v3);
                        const int v93 = stepc_div(v91, v3);
                        const unsigned v94 = r2[4ll * i11];
                        b6[stepc_swizzled<128>(4ll * (long long)v92 + 32ll * (long long)v93) + 1024ll * i11 + 2048ll * (long long)v83] = v94;
                        const unsigned v95 = r2[4ll * i11 + 1];
                        b6[stepc_swizzled<128>(4ll * (long long)v92 + 32ll * (long long)v93) + 1024ll * i11 + 2048ll * (long long)v83 + 1] = v95;
                        const unsigned v96 = r2[4ll * i11 + 2];
                        b6[stepc_swizzled<128>(4ll * (long long)v92 + 32ll * (long long)v93) + 1024ll * i11 + 2048ll * (long long)v83 + 2] = v96;
                        const unsigned v97 = r2[4ll * i11 + 3];
                        b6[stepc_swizzled<128>(4ll * (long long)v92 + 32ll * (long long)v93) + 1024ll * i11 + 2048ll * (long long)v83 + 3] = v97;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, false, false>(r0, b5 + (2048ll * (long long)v83), b6 + (2048ll * (long long)v83));
            const bool v99 = v82 < v98;
            const int v100 = (int)(i7 + 1);
            if (v99) {
                #pragma unroll
                for (long long i14 = 0; i14 < 2ll; i14++) {
                     {
                        const long long i15 = 0;
                         {
                            const long long i16 = thread;
                            const int v101 = (int)(i16);
                            const int v102 = stepc_rem(v101, v3);
                            const int v103 = stepc_div(v101, v3);
                            const int v104 = (int)(8ll * i14 + (long long)v102);
                            const bool v105 = v104 < v8;
                            const int v106 = (int)((long long)v103 + 32ll * (long long)v100);
                            const bool v108 = v106 < v107;
                            const bool v109 = v105 && v108;
                            const auto wide110 = stepc_load_whole<4>((const unsigned *)(b0 + (8ll * (long long)v104 + 96ll * (long long)v106)), v109);
                            const unsigned v117 = wide110.item[0];
                            r1[4ll * i14] = v117;
                            const unsigned v125 = wide110.item[1];
                            r1[4ll * i14 + 1] = v125;
                            const unsigned v133 = wide110.item[2];
                            r1[4ll * i14 + 2] = v133;
                            const unsigned v141 = wide110.item[3];
                            r1[4ll * i14 + 3] = v141;
                        }
                    }
                }
                #pragma unroll
                for (long long i17 = 0; i17 < 2ll; i17++) {
                     {
                        const long long i18 = 0;
                         {
                            const long long i19 = thread;
                            const int v142 = (int)(i19);
                            const int v143 = stepc_rem(v142, v3);
                            const int v144 = stepc_div(v142, v3);
                            const int v145 = (int)(16ll * i0 + 8ll * i17 + (long long)v143);
                            const bool v146 = v145 < v47;
                            const int v147 = (int)((long long)v144 + 32ll * (long long)v100);
                            const bool v148 = v147 < v107;
                            const bool v149 = v146 && v148;
                            const auto wide150 = stepc_load_whole<4>((const unsigned *)(b3 + (8ll * (long long)v145 + 160ll * (long long)v147)), v149);
                            const unsigned v157 = wide150.item[0];
                            r2[4ll * i17] = v157;
                            const unsigned v165 = wide150.item[1];
                            r2[4ll * i17 + 1] = v165;
                            const unsigned v173 = wide150.item[2];
                            r2[4ll * i17 + 2] = v173;
                            const unsigned v181 = wide150.item[3];
                            r2[4ll * i17 + 3] = v181;
                        }
                    }
                }
            }
        }
        stepc_warpgroup_wait<64>(r0);
        __syncthreads();
         {
            const long long i20 = 0;
            #pragma unroll
            for (long long i21 = 0; i21 < 2ll; i21++) {
                #pragma unroll
                for (long long i22 = 0; i22 < 16ll; i22++) {
                     {
                        const long long i23 = 0;
                         {
                            const long long i24 = thread;
                            const int v183 = (int)(i24);
                            const int v184 = stepc_div(v183, v182);
                            const int v186 = stepc_div(v183, v185);
                            const int v187 = stepc_rem(v186, v3);
                            const int v188 = stepc_rem(v183, v185);
                            const int v189 = (int)(8ll * i21 + 16ll * (long long)v184 + (long long)v187);
                            const bool v191 = v189 < v190;
                            const int v192 = (int)(64ll * i0 + 4ll * i22 + (long long)v188);
                            const bool v194 = v192 < v193;
                            const bool v195 = v191 && v194;
                            const float v196 = r0[2ll * i21 + 4ll * i22];
                            const float v197 = stepc_bf16_round((float)v196);
                            const auto wide198 = stepc_load_whole<1>((const unsigned *)(b1 + (2ll * (long long)v192 + 160ll * (long long)v189)), v195);
                            const float v198 = stepc_bf16_value(stepc_half<0>(wide198.item[0]));
                            const double v199 = v195 ? b2[0] : (double)0;
                            const double v200 = -v199;
                            const float v201 = stepc_bf16_round((float)v200);
                            const float v202 = stepc_bf16_mul(v201, v197);
                            const float v203 = stepc_bf16_add(v198, v202);
                            const float v204 = r0[2ll * i21 + 4ll * i22 + 1];
                            const float v205 = stepc_bf16_round((float)v204);
                            const float v206 = stepc_bf16_value(stepc_half<1>(wide198.item[0]));
                            const float v207 = stepc_bf16_mul(v201, v205);
                            const float v208 = stepc_bf16_add(v206, v207);
                            stepc_few<unsigned short, 2> run4_203;
                            run4_203.item[0] = stepc_bf16_bits(v203);
                            if (v195) bad |= stepc_not_finite(v203);
                            run4_203.item[1] = stepc_bf16_bits(v208);
                            stepc_store_whole(b4 + (2ll * (long long)v192 + 160ll * (long long)v189), run4_203, v195);
                            if (v195) bad |= stepc_not_finite(v208);
                        }
                    }
                }
            }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(32) kernel_6(const int *b0, int *b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = b0[0];
    const int v2 = (int)2147483647ll;
    const bool v3 = v1 < v2;
    const int v4 = (int)1ll;
    const int v5 = (int)((unsigned)v1 + (unsigned)v4);
    const int v6 = v3 ? v5 : v2;
    __syncthreads();
    if (thread == 0) b1[0] = v6;
}

extern "C" __global__ void __launch_bounds__(256) kernel_7(unsigned short *__restrict__ b0, long long lo, long long hi, unsigned number_0, unsigned number_1)
{
    const unsigned thread = threadIdx.x;
    const float v1 = -0.99609375f;
    const unsigned v2 = number_0;
    const unsigned v3 = number_1;
    const unsigned v4 = (unsigned)0ll;
    const unsigned v10 = (unsigned)255ll;
    const unsigned v12 = (unsigned)1ll;
    const unsigned v14 = (unsigned)16ll;
    const unsigned v16 = (unsigned)1065353216ll;
    const float v19 = 1.0f;
    const float v21 = 2.0f;
    const float v31 = stepc_bits<float>(0x7f800000u);
    const float v37 = 5.0f;
    const float v39 = 1.5014094f;
    const float v40 = 2.8329768f;
    const float v42 = 0.24664073f;
    const float v43 = 1.001674f;
    const float v45 = -0.0041776816f;
    const float v46 = 0.0094388705f;
    const float v48 = -0.001253725f;
    const float v49 = -0.0076224613f;
    const float v51 = 0.00021858087f;
    const float v52 = 0.0057395077f;
    const float v54 = -4.3915065e-06f;
    const float v55 = -0.0036734284f;
    const float v57 = -3.5233877e-06f;
    const float v58 = 0.0013493432f;
    const float v60 = 3.4327394e-07f;
    const float v61 = 0.00010095056f;
    const float v63 = 2.8102264e-08f;
    const float v64 = -0.00020021426f;
    const float v66 = 2.5f;
    const float v69 = 3.0f;
    const float v92 = 1.4140625f;
    const float v96 = 0.100097656f;
    const bool wide = lo % 8 == 0 && stepc_is_aligned<8>(b0);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 2048 + (wide ? thread * 8 : thread); at < hi; at += (long long)gridDim.x * 2048) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 8 ? (int)left : 8;
        const bool whole = wide && count == 8;
        stepc_few<unsigned short, 8> out0;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            const int v5 = (int)(i0);
            const unsigned v6 = (unsigned)v5;
            const unsigned v7 = stepc_threefry(v2, v3, v4, v6, 0);
            const unsigned v8 = stepc_threefry(v2, v3, v4, v6, 1);
            const unsigned v9 = (unsigned)(v7 ^ v8);
            const unsigned v11 = (unsigned)(v9 & v10);
            const unsigned v13 = stepc_shr(v11, v12);
            const unsigned v15 = stepc_shl(v13, v14);
            const unsigned v17 = (unsigned)(v15 | v16);
            const float v18 = stepc_bits<float>(v17);
            const float v20 = v18 - v19;
            const float v22 = v20 * v21;
            const float v23 = stepc_bf16_round((float)v22);
            const float v24 = (float)v23;
            const float v25 = v24 + v1;
            const float v26 = stepc_bf16_round((float)v25);
            const float v27 = (float)v26;
            const float v28 = stepc_max(v1, v27);
            const float v29 = fabsf(v28);
            const bool v30 = v29 == v19;
            const float v32 = v28 * v31;
            const float v33 = v28 * v28;
            const float v34 = -v33;
            const float v35 = log1pf(v34);
            const float v36 = -v35;
            const bool v38 = v36 < v37;
            const float v41 = v38 ? v39 : v40;
            const float v44 = v38 ? v42 : v43;
            const float v47 = v38 ? v45 : v46;
            const float v50 = v38 ? v48 : v49;
            const float v53 = v38 ? v51 : v52;
            const float v56 = v38 ? v54 : v55;
            const float v59 = v38 ? v57 : v58;
            const float v62 = v38 ? v60 : v61;
            const float v65 = v38 ? v63 : v64;
            const float v67 = v36 - v66;
            const float v68 = sqrtf(v36);
            const float v70 = v68 - v69;
            const float v71 = v38 ? v67 : v70;
            const float v72 = v65 * v71;
            const float v73 = v62 + v72;
            const float v74 = v73 * v71;
            const float v75 = v59 + v74;
            const float v76 = v75 * v71;
            const float v77 = v56 + v76;
            const float v78 = v77 * v71;
            const float v79 = v53 + v78;
            const float v80 = v79 * v71;
            const float v81 = v50 + v80;
            const float v82 = v81 * v71;
            const float v83 = v47 + v82;
            const float v84 = v83 * v71;
            const float v85 = v44 + v84;
            const float v86 = v85 * v71;
            const float v87 = v41 + v86;
            const float v88 = v87 * v28;
            const float v89 = v30 ? v32 : v88;
            const float v90 = stepc_bf16_round((float)v89);
            const float v91 = (float)v90;
            const float v93 = v91 * v92;
            const float v94 = stepc_bf16_round((float)v93);
            const float v95 = (float)v94;
            const float v97 = v95 * v96;
            const float v98 = stepc_bf16_round((float)v97);
            out0.item[k] = stepc_bf16_bits(v98);
        }
        stepc_store_few(b0 + (i0), out0, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) kernel_9(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *__restrict__ b3, long long lo, long long hi)
{
    stepc_escape(b3);
    __shared__ __align__(1024) unsigned b4[4096];
    __shared__ __align__(1024) unsigned b5[4096];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const unsigned v6 = (unsigned)0ll;
    const int v7 = (int)4ll;
    const int v12 = (int)200ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v178 = (int)32ll;
    const int v187 = (int)80ll;
    const float v195 = 2.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v6;
        unsigned r2[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r2[i] = v6;
        #pragma unroll
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v8 = (int)(i2);
                const int v9 = stepc_rem(v8, v7);
                const int v10 = stepc_div(v8, v7);
                const int v11 = (int)(64ll * i1 + (long long)v10 + 128ll * (long long)v4);
                const bool v13 = v11 < v12;
                const auto wide14 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v11 + 8ll * (long long)v9)), v13);
                const unsigned v22 = wide14.item[0];
                r1[4ll * i1] = v22;
                const unsigned v30 = wide14.item[1];
                r1[4ll * i1 + 1] = v30;
                const unsigned v38 = wide14.item[2];
                r1[4ll * i1 + 2] = v38;
                const unsigned v46 = wide14.item[3];
                r1[4ll * i1 + 3] = v46;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 2ll; i3++) {
             {
                const long long i4 = 0;
                 {
                    const long long i5 = thread;
                    const int v48 = (int)(i5);
                    const int v49 = stepc_rem(v48, v47);
                    const int v50 = stepc_div(v48, v47);
                    const int v51 = (int)(8ll * i3 + (long long)v49 + 16ll * (long long)v3);
                    const bool v53 = v51 < v52;
                    const auto wide54 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v51 + 160ll * (long long)v50)), v53);
                    const unsigned v61 = wide54.item[0];
                    r2[4ll * i3] = v61;
                    const unsigned v69 = wide54.item[1];
                    r2[4ll * i3 + 1] = v69;
                    const unsigned v77 = wide54.item[2];
                    r2[4ll * i3 + 2] = v77;
                    const unsigned v85 = wide54.item[3];
                    r2[4ll * i3 + 3] = v85;
                }
            }
        }
        #pragma unroll 1
        for (long long i6 = 0; i6 < 3ll; i6++) {
            const int v86 = (int)(i6);
            const int v87 = stepc_rem(v86, v1);
            #pragma unroll
            for (long long i7 = 0; i7 < 2ll; i7++) {
                 {
                    const long long i8 = thread;
                    const int v88 = (int)(i8);
                    const int v89 = stepc_rem(v88, v7);
                    const int v90 = stepc_div(v88, v7);
                    const unsigned v91 = r1[4ll * i7];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 3] = v94;
                }
            }
            #pragma unroll
            for (long long i9 = 0; i9 < 2ll; i9++) {
                 {
                    const long long i10 = 0;
                     {
                        const long long i11 = thread;
                        const int v95 = (int)(i11);
                        const int v96 = stepc_rem(v95, v47);
                        const int v97 = stepc_div(v95, v47);
                        const unsigned v98 = r2[4ll * i9];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v87), b5 + (2048ll * (long long)v87));
            const bool v102 = v86 < v1;
            const int v103 = (int)(i6 + 1);
            if (v102) {
                #pragma unroll
                for (long long i12 = 0; i12 < 2ll; i12++) {
                     {
                        const long long i13 = thread;
                        const int v104 = (int)(i13);
                        const int v105 = stepc_rem(v104, v7);
                        const int v106 = stepc_div(v104, v7);
                        const int v107 = (int)(64ll * i12 + (long long)v106 + 128ll * (long long)v4);
                        const bool v108 = v107 < v12;
                        const auto wide109 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v107 + 8ll * (long long)v105 + 32ll * (long long)v103)), v108);
                        const unsigned v116 = wide109.item[0];
                        r1[4ll * i12] = v116;
                        const unsigned v124 = wide109.item[1];
                        r1[4ll * i12 + 1] = v124;
                        const unsigned v132 = wide109.item[2];
                        r1[4ll * i12 + 2] = v132;
                        const unsigned v140 = wide109.item[3];
                        r1[4ll * i12 + 3] = v140;
                    }
                }
                #pragma unroll
                for (long long i14 = 0; i14 < 2ll; i14++) {
                     {
                        const long long i15 = 0;
                         {
                            const long long i16 = thread;
                            const int v141 = (int)(i16);
                            const int v142 = stepc_rem(v141, v47);
                            const int v143 = stepc_div(v141, v47);
                            const int v144 = (int)(8ll * i14 + (long long)v142 + 16ll * (long long)v3);
                            const bool v145 = v144 < v52;
                            const auto wide146 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v144 + 160ll * (long long)v143 + 5120ll * (long long)v103)), v145);
                            const unsigned v153 = wide146.item[0];
                            r2[4ll * i14] = v153;
                            const unsigned v161 = wide146.item[1];
                            r2[4ll * i14 + 1] = v161;
                            const unsigned v169 = wide146.item[2];
                            r2[4ll * i14 + 2] = v169;
                            const unsigned v177 = wide146.item[3];
                            r2[4ll * i14 + 3] = v177;
                        }
                    }
                }
            }
        }
        stepc_warpgroup_wait<64>(r0);
        __syncthreads();
         {
            const long long i17 = 0;
            #pragma unroll
            for (long long i18 = 0; i18 < 2ll; i18++) {
                #pragma unroll
                for (long long i19 = 0; i19 < 16ll; i19++) {
                     {
                        const long long i20 = 0;
                         {
                            const long long i21 = thread;
                            const int v179 = (int)(i21);
                            const int v180 = stepc_div(v179, v178);
                            const int v181 = stepc_div(v179, v7);
                            const int v182 = stepc_rem(v181, v47);
                            const int v183 = stepc_rem(v179, v7);
                            const int v184 = (int)(8ll * i18 + 16ll * (long long)v180 + (long long)v182 + 128ll * (long long)v4);
                            const bool v185 = v184 < v12;
                            const int v186 = (int)(4ll * i19 + (long long)v183 + 64ll * (long long)v3);
                            const bool v188 = v186 < v187;
                            const bool v189 = v185 && v188;
                            const float v190 = r0[2ll * i18 + 4ll * i19];
                            const float v191 = stepc_bf16_round((float)v190);
                            const auto wide192 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v186)), v189);
                            const float v192 = stepc_bf16_value(stepc_half<0>(wide192.item[0]));
                            const float v193 = stepc_bf16_add(v191, v192);
                            const float v194 = stepc_bf16_round(tanhf(v193));
                            const float v196 = stepc_bf16_mul(v194, v195);
                            const float v197 = stepc_bf16_round(cosf(v196));
                            const float v198 = stepc_bf16_mul(v196, v197);
                            const float v199 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v200 = stepc_bf16_round((float)v199);
                            const float v201 = stepc_bf16_value(stepc_half<1>(wide192.item[0]));
                            const float v202 = stepc_bf16_add(v200, v201);
                            const float v203 = stepc_bf16_round(tanhf(v202));
                            const float v204 = stepc_bf16_mul(v203, v195);
                            const float v205 = stepc_bf16_round(cosf(v204));
                            const float v206 = stepc_bf16_mul(v204, v205);
                            stepc_few<unsigned short, 2> run3_198;
                            run3_198.item[0] = stepc_bf16_bits(v198);
                            run3_198.item[1] = stepc_bf16_bits(v206);
                            stepc_store_whole(b3 + (2ll * (long long)v186 + 160ll * (long long)v184), run3_198, v189);
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) kernel_10(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *__restrict__ b3, long long lo, long long hi)
{
    stepc_escape(b3);
    __shared__ __align__(1024) unsigned b4[4096];
    __shared__ __align__(1024) unsigned b5[4096];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const unsigned v6 = (unsigned)0ll;
    const int v7 = (int)4ll;
    const int v12 = (int)200ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v178 = (int)32ll;
    const int v187 = (int)80ll;
    const float v195 = 2.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v6;
        unsigned r2[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r2[i] = v6;
        #pragma unroll
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v8 = (int)(i2);
                const int v9 = stepc_rem(v8, v7);
                const int v10 = stepc_div(v8, v7);
                const int v11 = (int)(64ll * i1 + (long long)v10 + 128ll * (long long)v4);
                const bool v13 = v11 < v12;
                const auto wide14 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v11 + 8ll * (long long)v9)), v13);
                const unsigned v22 = wide14.item[0];
                r1[4ll * i1] = v22;
                const unsigned v30 = wide14.item[1];
                r1[4ll * i1 + 1] = v30;
                const unsigned v38 = wide14.item[2];
                r1[4ll * i1 + 2] = v38;
                const unsigned v46 = wide14.item[3];
                r1[4ll * i1 + 3] = v46;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 2ll; i3++) {
             {
                const long long i4 = 0;
                 {
                    const long long i5 = thread;
                    const int v48 = (int)(i5);
                    const int v49 = stepc_rem(v48, v47);
                    const int v50 = stepc_div(v48, v47);
                    const int v51 = (int)(8ll * i3 + (long long)v49 + 16ll * (long long)v3);
                    const bool v53 = v51 < v52;
                    const auto wide54 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v51 + 160ll * (long long)v50)), v53);
                    const unsigned v61 = wide54.item[0];
                    r2[4ll * i3] = v61;
                    const unsigned v69 = wide54.item[1];
                    r2[4ll * i3 + 1] = v69;
                    const unsigned v77 = wide54.item[2];
                    r2[4ll * i3 + 2] = v77;
                    const unsigned v85 = wide54.item[3];
                    r2[4ll * i3 + 3] = v85;
                }
            }
        }
        #pragma unroll 1
        for (long long i6 = 0; i6 < 3ll; i6++) {
            const int v86 = (int)(i6);
            const int v87 = stepc_rem(v86, v1);
            #pragma unroll
            for (long long i7 = 0; i7 < 2ll; i7++) {
                 {
                    const long long i8 = thread;
                    const int v88 = (int)(i8);
                    const int v89 = stepc_rem(v88, v7);
                    const int v90 = stepc_div(v88, v7);
                    const unsigned v91 = r1[4ll * i7];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b4[stepc_swizzled<64>(16ll * (long long)v90 + 4ll * (long long)v89) + 1024ll * i7 + 2048ll * (long long)v87 + 3] = v94;
                }
            }
            #pragma unroll
            for (long long i9 = 0; i9 < 2ll; i9++) {
                 {
                    const long long i10 = 0;
                     {
                        const long long i11 = thread;
                        const int v95 = (int)(i11);
                        const int v96 = stepc_rem(v95, v47);
                        const int v97 = stepc_div(v95, v47);
                        const unsigned v98 = r2[4ll * i9];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b5[stepc_swizzled<128>(4ll * (long long)v96 + 32ll * (long long)v97) + 1024ll * i9 + 2048ll * (long long)v87 + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v87), b5 + (2048ll * (long long)v87));
            const bool v102 = v86 < v1;
            const int v103 = (int)(i6 + 1);
            if (v102) {
                #pragma unroll
                for (long long i12 = 0; i12 < 2ll; i12++) {
                     {
                        const long long i13 = thread;
                        const int v104 = (int)(i13);
                        const int v105 = stepc_rem(v104, v7);
                        const int v106 = stepc_div(v104, v7);
                        const int v107 = (int)(64ll * i12 + (long long)v106 + 128ll * (long long)v4);
                        const bool v108 = v107 < v12;
                        const auto wide109 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v107 + 8ll * (long long)v105 + 32ll * (long long)v103)), v108);
                        const unsigned v116 = wide109.item[0];
                        r1[4ll * i12] = v116;
                        const unsigned v124 = wide109.item[1];
                        r1[4ll * i12 + 1] = v124;
                        const unsigned v132 = wide109.item[2];
                        r1[4ll * i12 + 2] = v132;
                        const unsigned v140 = wide109.item[3];
                        r1[4ll * i12 + 3] = v140;
                    }
                }
                #pragma unroll
                for (long long i14 = 0; i14 < 2ll; i14++) {
                     {
                        const long long i15 = 0;
                         {
                            const long long i16 = thread;
                            const int v141 = (int)(i16);
                            const int v142 = stepc_rem(v141, v47);
                            const int v143 = stepc_div(v141, v47);
                            const int v144 = (int)(8ll * i14 + (long long)v142 + 16ll * (long long)v3);
                            const bool v145 = v144 < v52;
                            const auto wide146 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v144 + 160ll * (long long)v143 + 5120ll * (long long)v103)), v145);
                            const unsigned v153 = wide146.item[0];
                            r2[4ll * i14] = v153;
                            const unsigned v161 = wide146.item[1];
                            r2[4ll * i14 + 1] = v161;
                            const unsigned v169 = wide146.item[2];
                            r2[4ll * i14 + 2] = v169;
                            const unsigned v177 = wide146.item[3];
                            r2[4ll * i14 + 3] = v177;
                        }
                    }
                }
            }
        }
        stepc_warpgroup_wait<64>(r0);
        __syncthreads();
         {
            const long long i17 = 0;
            #pragma unroll
            for (long long i18 = 0; i18 < 2ll; i18++) {
                #pragma unroll
                for (long long i19 = 0; i19 < 16ll; i19++) {
                     {
                        const long long i20 = 0;
                         {
                            const long long i21 = thread;
                            const int v179 = (int)(i21);
                            const int v180 = stepc_div(v179, v178);
                            const int v181 = stepc_div(v179, v7);
                            const int v182 = stepc_rem(v181, v47);
                            const int v183 = stepc_rem(v179, v7);
                            const int v184 = (int)(8ll * i18 + 16ll * (long long)v180 + (long long)v182 + 128ll * (long long)v4);
                            const bool v185 = v184 < v12;
                            const int v186 = (int)(4ll * i19 + (long long)v183 + 64ll * (long long)v3);
                            const bool v188 = v186 < v187;
                            const bool v189 = v185 && v188;
                            const float v190 = r0[2ll * i18 + 4ll * i19];
                            const float v191 = stepc_bf16_round((float)v190);
                            const auto wide192 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v186)), v189);
                            const float v192 = stepc_bf16_value(stepc_half<0>(wide192.item[0]));
                            const float v193 = stepc_bf16_add(v191, v192);
                            const float v194 = stepc_bf16_round(tanhf(v193));
                            const float v196 = stepc_bf16_mul(v194, v195);
                            const float v197 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v198 = stepc_bf16_round((float)v197);
                            const float v199 = stepc_bf16_value(stepc_half<1>(wide192.item[0]));
                            const float v200 = stepc_bf16_add(v198, v199);
                            const float v201 = stepc_bf16_round(tanhf(v200));
                            const float v202 = stepc_bf16_mul(v201, v195);
                            if (v189) b3[2ll * (long long)v186 + 160ll * (long long)v184] = stepc_bf16_bits(v196);
                            if (v189) b3[2ll * (long long)v186 + 160ll * (long long)v184 + 1] = stepc_bf16_bits(v202);
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) sequence(const __grid_constant__ stepc_table<508> table)
{
    for (unsigned at = 1; at < table.word[0];) {
        switch (table.word[at++]) {
        case 7: {
            const unsigned thread = threadIdx.x % 256;
            const unsigned number_0 = (unsigned)table.word[at + 3];
            const unsigned number_1 = (unsigned)table.word[at + 4];
            unsigned short *const b0 = (unsigned short *)stepc_global(table.word[at + 0]);
            const long long lo = 0, hi = (long long)table.word[at + 2];
            const float v1 = -0.99609375f;
            const unsigned v2 = number_0;
            const unsigned v3 = number_1;
            const unsigned v4 = (unsigned)0ll;
            const unsigned v10 = (unsigned)255ll;
            const unsigned v12 = (unsigned)1ll;
            const unsigned v14 = (unsigned)16ll;
            const unsigned v16 = (unsigned)1065353216ll;
            const float v19 = 1.0f;
            const float v21 = 2.0f;
            const float v31 = stepc_bits<float>(0x7f800000u);
            const float v37 = 5.0f;
            const float v39 = 1.5014094f;
            const float v40 = 2.8329768f;
            const float v42 = 0.24664073f;
            const float v43 = 1.001674f;
            const float v45 = -0.0041776816f;
            const float v46 = 0.0094388705f;
            const float v48 = -0.001253725f;
            const float v49 = -0.0076224613f;
            const float v51 = 0.00021858087f;
            const float v52 = 0.0057395077f;
            const float v54 = -4.3915065e-06f;
            const float v55 = -0.0036734284f;
            const float v57 = -3.5233877e-06f;
            const float v58 = 0.0013493432f;
            const float v60 = 3.4327394e-07f;
            const float v61 = 0.00010095056f;
            const float v63 = 2.8102264e-08f;
            const float v64 = -0.00020021426f;
            const float v66 = 2.5f;
            const float v69 = 3.0f;
            const float v92 = 1.4140625f;
            const float v96 = 0.100097656f;
            const bool wide = lo % 8 == 0 && stepc_is_aligned<8>(b0);
            const int each = wide ? 1 : 256;
            for (long long at = lo + (long long)0 * 2048 + (wide ? thread * 8 : thread); at < hi; at += (long long)1 * 2048) {
                const long long i0 = at;
                const long long left = wide ? hi - at : (hi - at + 255) / 256;
                const int count = left < 8 ? (int)left : 8;
                const bool whole = wide && count == 8;
                stepc_few<unsigned short, 8> out0;
                #pragma unroll
                for (int k = 0; k < 8; k++) {
                    const long long i0 = at + (k < count ? k : count - 1) * each;
                    const int v5 = (int)(i0);
                    const unsigned v6 = (unsigned)v5;
                    const unsigned v7 = stepc_threefry(v2, v3, v4, v6, 0);
                    const unsigned v8 = stepc_threefry(v2, v3, v4, v6, 1);
                    const unsigned v9 = (unsigned)(v7 ^ v8);
                    const unsigned v11 = (unsigned)(v9 & v10);
                    const unsigned v13 = stepc_shr(v11, v12);
                    const unsigned v15 = stepc_shl(v13, v14);
                    const unsigned v17 = (unsigned)(v15 | v16);
                    const float v18 = stepc_bits<float>(v17);
                    const float v20 = v18 - v19;
                    const float v22 = v20 * v21;
                    const float v23 = stepc_bf16_round((float)v22);
                    const float v24 = (float)v23;
                    const float v25 = v24 + v1;
                    const float v26 = stepc_bf16_round((float)v25);
                    const float v27 = (float)v26;
                    const float v28 = stepc_max(v1, v27);
                    const float v29 = fabsf(v28);
                    const bool v30 = v29 == v19;
                    const float v32 = v28 * v31;
                    const float v33 = v28 * v28;
                    const float v34 = -v33;
                    const float v35 = log1pf(v34);
                    const float v36 = -v35;
                    const bool v38 = v36 < v37;
                    const float v41 = v38 ? v39 : v40;
                    const float v44 = v38 ? v42 : v43;
                    const float v47 = v38 ? v45 : v46;
                    const float v50 = v38 ? v48 : v49;
                    const float v53 = v38 ? v51 : v52;
                    const float v56 = v38 ? v54 : v55;
                    const float v59 = v38 ? v57 : v58;
                    const float v62 = v38 ? v60 : v61;
                    const float v65 = v38 ? v63 : v64;
                    const float v67 = v36 - v66;
                    const float v68 = sqrtf(v36);
                    const float v70 = v68 - v69;
                    const float v71 = v38 ? v67 : v70;
                    const float v72 = v65 * v71;
                    const float v73 = v62 + v72;
                    const float v74 = v73 * v71;
                    const float v75 = v59 + v74;
                    const float v76 = v75 * v71;
                    const float v77 = v56 + v76;
                    const float v78 = v77 * v71;
                    const float v79 = v53 + v78;
                    const float v80 = v79 * v71;
                    const float v81 = v50 + v80;
                    const float v82 = v81 * v71;
                    const float v83 = v47 + v82;
                    const float v84 = v83 * v71;
                    const float v85 = v44 + v84;
                    const float v86 = v85 * v71;
                    const float v87 = v41 + v86;
                    const float v88 = v87 * v28;
                    const float v89 = v30 ? v32 : v88;
                    const float v90 = stepc_bf16_round((float)v89);
                    const float v91 = (float)v90;
                    const float v93 = v91 * v92;
                    const float v94 = stepc_bf16_round((float)v93);
                    const float v95 = (float)v94;
                    const float v97 = v95 * v96;
                    const float v98 = stepc_bf16_round((float)v97);
                    out0.item[k] = stepc_bf16_bits(v98);
                }
                stepc_store_few(b0 + (i0), out0, count, each, whole);
            }
            at += 5;
            break;
        }
        case 8: {
            if (threadIdx.x < 32) {
                const unsigned thread = threadIdx.x % 32;
                int *const b0 = (int *)stepc_global(table.word[at + 0]);
                const long long lo = 0, hi = (long long)table.word[at + 2];
                const int v1 = (int)0ll;
                if (thread == 0) b0[0] = v1;
            }
            at += 3;
            break;
        }
        default: { /* what is moved */
            stepc_move(table.word + at, threadIdx.x, 256);
            at += 1 + 3 * (unsigned)table.word[at];
        }
        }
        __syncthreads();
    }
}

