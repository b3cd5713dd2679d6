// A host in C++ through samples/step.hpp, on a step.so made of samples/cookbook/model.json.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "step.hpp"

template <class F> static bool refused(step_status want, const char *word, F call)
{
    try {
        call();
    } catch (const step::error &e) {
        bool right = e.status == want && std::string(e.what()).find(word) != std::string::npos;
        if (!right)
            std::fprintf(stderr, "expected status %d and \"%s\", found %d: %s\n", want, word, e.status, e.what());
        return right;
    }
    std::fprintf(stderr, "not refused: %s\n", word);
    return false;
}

// What is loaded under other names, in part, and in another dtype.
static bool names(const char *path, const std::string &file)
{
    step::trainer saved(path), t(path);
    std::vector<float> kernel(12), mine(12), fresh(12), average(12);
    auto kernel_of = [](step::trainer &of, const char *name, std::vector<float> &to) {
        for (const step::slot &s : of.state())
            if (s.name == name) {
                to.resize(s.bytes / sizeof(float));
                of.read({name, s.shape, to});
            }
    };
    t.init();
    kernel_of(t, "head.kernel", fresh);
    saved.load(file);
    kernel_of(saved, "head.kernel", kernel);
    kernel_of(saved, "ema.head.kernel", average);
    bool good = !kernel.empty() && kernel != fresh && kernel != average;
    t.load(file, {{"head.kernel", "init"}, {"opt_state.**", "reset"}, {"**", "**"}});
    kernel_of(t, "head.kernel", mine);
    good &= mine == fresh;
    t.load(file, {{"ema.head.kernel", "head.kernel"}, {"**", "**"}}, STEP_LOAD_PARTIAL | STEP_LOAD_NO_VERIFY);
    kernel_of(t, "ema.head.kernel", average);
    good &= average == kernel;
    t.load(file, {{"**", "**"}}, STEP_LOAD_PARAMS_ONLY);
    kernel_of(t, "head.kernel", mine);
    good &= mine == kernel;
    good &= refused(STEP_ESHAPE, "which is not there", [&] { t.load(file, {{"head.*", "tail.*"}, {"**", "**"}}); });
    good &= refused(STEP_EINVAL, "NUL", [&] { t.load(file + '\0' + file); });
    good &= refused(STEP_EINVAL, "NUL", [&] { t.save_into(file + std::string("s\0more", 6)); });
    good &= refused(STEP_EINVAL, "NUL", [&] { t.get(std::string("learning_rate\0", 14)); });
    good &= refused(STEP_EINVAL, "braces", [&] { t.load(file, {{"{a}", "b"}, {"**", "**"}}); });
    good &= refused(STEP_ESHAPE, "\"a\"b\\\n\" matches no tensor", [&] {
        t.load(file, {{"a\"b\\\n", "init"}, {"**", "**"}});
    });
    good &= refused(STEP_ESHAPE, "no rule of the map", [&] { t.load(file, step::name_map{}); });
    return good;
}

// Several outputs, metrics, a file of parameters, and what must be refused: on a step.so made of outputs.json.
static bool outputs(const char *path, const std::string &file)
{
    step::trainer t(path);
    std::vector<int32_t> tokens{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4}, classes(4);
    std::vector<float> x{1, 2, 3, 4, -1, -2, -3, -4}, y{1, 0, -1, 2}, score(4);
    std::vector<uint16_t> half(24);
    std::vector<step::array> batch{{"tokens", {4, 3}, tokens}, {"x", {4, 2}, x}, {"y", {4}, y}};
    const std::vector<step::array> read(batch.begin(), batch.begin() + 2),
        out{{"model.half", {4, 6}, half}, {"model.score", {4}, score}};
    bool good = refused(STEP_EINVAL, "init or load", [&] { t.infer(read, out); });
    t.init();
    t.step(batch);
    good &= t.slots(STEP_OUTPUT).size() == 3 && t.slots(STEP_OUTPUT)[0].name == "model.score" &&
            t.metrics().size() == 3 && t.slots(STEP_METRIC).size() == 4; // one is an array
    double loss = t.eval(batch), sum = 0;
    t.infer(read, out);
    t.infer(read, {"model.class", {4}, classes});
    for (size_t i = 0; i < 4; i++) sum += (score[i] - y[i]) * (score[i] - y[i]) / 4;
    good &= std::fabs(sum - loss) < 1e-5 && t.metrics()[0] == loss;
    good &= refused(STEP_ESHAPE, "its shape has 12 elements, the vector 4", [&] {
        step::array("model.half", {4, 3}, score);
    });
    good &= refused(STEP_ESHAPE, "expected bfloat16[4, 6]", [&] { t.infer(read, {"model.half", {4}, score}); });
    good &= refused(STEP_ENOTFOUND, "\"model\"", [&] { t.infer(read, {"model", {4}, score}); });
    good &= refused(STEP_ENOTFOUND, "\"x\" is missing", [&] { t.infer({{"tokens", {4, 3}, tokens}}, out); });
    good &= refused(STEP_ENOTFOUND, "slow", [&] { t.infer(read, out, "slow"); });
    tokens[3] = 8;
    good &= refused(STEP_ERANGE, "tokens", [&] { t.eval(batch); });
    tokens[3] = 3;
    const std::string runs = file + ".runs";
    good &= refused(STEP_EINVAL, "NAME.safetensors", [&] { t.save(runs); });
    good &= refused(STEP_EINVAL, "the name of a file", [&] { t.save_into(runs + ".safetensors"); });
    step::checkpoint_job job = t.save_into(runs, "latest=1", {{"loader", "{\"at\":7}"}}, {{"loss", loss}});
    t.save(file);
    t.step(batch);
    good &= job.wait();
    const std::vector<step::checkpoint> there = step::checkpoints(runs);
    good &= there.size() == 1 && there[0].step == 1 && there[0].complete && there[0].bytes > 100 &&
            there[0].path == runs + "/step-1" && there[0].time.size() == 20 &&
            there[0].metrics == std::map<std::string, double>{{"loss", loss}};
    good &= refused(STEP_EIO, "No such file", [&] { step::checkpoints(runs + "/none"); });
    good &= t.eval(batch) != loss;
    t.load(runs);
    good &= t.eval(batch) == loss && t.item("loader") == "{\"at\":7}" && t.item("other").empty();
    good &= refused(STEP_EIO, "exists already", [&] { t.save_into(runs); });
    good &= refused(STEP_EINVAL, "expected latest=N", [&] { t.save_into(runs, "newest=1"); });
    t.step(batch);
    t.load(file, STEP_LOAD_PARAMS_ONLY);
    good &= t.eval(batch) != loss; // the statistics have gone on
    t.load(file);
    good &= t.eval(batch) == loss;
    good &= refused(STEP_EIO, "No such file", [&] { t.load(file + ".none"); });
    return good & names(path, file);
}

// Every dtype in and out: on a step.so made by dtypes.py.
template <class In, class Out> static bool passes(step::trainer &t, const std::string &kind, uint32_t in, uint32_t out)
{
    std::vector<step::array> batch;
    std::vector<std::vector<char>> kept;
    std::vector<In> given(12);
    std::vector<Out> back(12);
    for (size_t i = 0; i < 12; i++) given[i] = static_cast<In>(i % 2);
    for (const step::slot &s : t.slots(STEP_INPUT)) {
        kept.emplace_back(s.bytes);
        if (s.name == kind + "_row") batch.emplace_back(s.name, s.shape, given, in);
        else batch.emplace_back(s.name, s.shape, s.dtype, kept.back().data());
    }
    t.infer(batch, {"model." + kind + "_row", {4, 3}, back, out});
    bool good = step::bytes_of(in) == sizeof(In) && step::bytes_of(out) == sizeof(Out);
    for (size_t i = 0; i < 12; i++) good &= back[i] == static_cast<Out>(given[i]);
    if (!good) std::fprintf(stderr, "%s does not come back\n", kind.c_str());
    return good;
}
template <class T> static bool passes(step::trainer &t, const std::string &kind)
{
    return passes<T, T>(t, kind, step::dtype_of<T>::value, step::dtype_of<T>::value);
}

static bool dtypes(const char *path)
{
    step::trainer t(path);
    t.init();
    bool good = passes<uint8_t>(t, "uint8") & passes<int8_t>(t, "int8") & passes<int16_t>(t, "int16") &
                passes<uint32_t>(t, "uint32") & passes<int32_t>(t, "int32") & passes<float>(t, "float32") &
                passes<uint16_t>(t, "bfloat16") & passes<uint16_t, uint16_t>(t, "float16", STEP_F16, STEP_F16) &
                passes<uint16_t, uint16_t>(t, "uint16", STEP_U16, STEP_U16) &
                passes<uint8_t, uint8_t>(t, "bool", STEP_BOOL, STEP_BOOL) &
                passes<uint64_t, uint32_t>(t, "uint64", STEP_U64, STEP_U32) &
                passes<int64_t, int32_t>(t, "int64", STEP_I64, STEP_I32) &
                passes<double, float>(t, "float64", STEP_F64, STEP_F32);
    std::vector<uint16_t> half(12);
    std::vector<float> empty;
    good &= refused(STEP_ESHAPE, "dtype 14 has elements of 4 bytes, the vector of 2", [&] {
        step::array("a", {4, 3}, half, STEP_F32);
    });
    good &= refused(STEP_ESHAPE, "extent of -1", [&] { step::array("a", {-1, 0}, empty); });
    good &= refused(STEP_ESHAPE, "no shape", [&] { step::array("a", {int64_t{1} << 32, int64_t{1} << 32}, empty); });
    good &= refused(STEP_ESHAPE, "float16[4, 3]", [&] { t.read({"float16_row_w", {4, 3}, half}); });
    t.read({"float16_row_w", {4, 3}, half, STEP_F16});
    return good;
}

int main(int argc, char **argv)
try {
    if (argc != 5) return 2;
    step::trainer t(argv[1]);
    t.init();
    std::vector<float> x(64), y(256), kernel(16), output(256);
    for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < y.size(); i++) y[i] = std::cos(static_cast<float>(i));
    const std::vector<step::array> batch{{"x", {32, 2}, x}, {"y", {32, 8}, y}};
    double before = t.eval(batch), first = t.step(batch), last = first;
    for (int i = 0; i < 200; i++) last = t.step(batch);
    t.read({"layers.0.kernel", {2, 8}, kernel});
    t.infer({{"x", {32, 2}, x}}, {"model", {32, 8}, output});
    // All state by name: back to where it was, the next step is the same one.
    std::vector<std::vector<char>> kept;
    std::vector<step::slot> slots = t.state();
    for (const step::slot &s : slots) {
        kept.emplace_back(s.bytes);
        t.read({s.name, s.shape, s.dtype, kept.back().data()});
    }
    double next = t.step(batch);
    for (int i = 0; i < 3; i++) t.step(batch);
    for (size_t i = 0; i < slots.size(); i++) t.write({slots[i].name, slots[i].shape, slots[i].dtype, kept[i].data()});
    double again = t.step(batch), rate = t.get("learning_rate");
    t.set("learning_rate", 0);
    double still = t.eval(batch);
    t.step(batch);
    bool same = next == again && rate == 1e-3 && t.eval(batch) == still && t.get("learning_rate") == 0;
    t.infer({{"x", {32, 2}, x}}, {"model", {32, 8}, output});
    double loss = 0;
    for (size_t i = 0; i < y.size(); i++) loss += (output[i] - y[i]) * (output[i] - y[i]) / 256.0;
    double without = t.eval(batch); /* steps that do not count */
    std::vector<float> nan(x.size(), std::nanf(""));
    step_result bad = t.step({{"x", {32, 2}, nan}, batch[1]}, STEP_ON_NONFINITE_SKIP);
    step_result vetoed = t.step(batch, [&](const step_result &r) { return r.loss < 0 || t.metrics().empty(); });
    same = same && bad.flags == (STEP_NONFINITE | STEP_SKIPPED) && vetoed.flags == STEP_SKIPPED &&
           t.eval(batch) == without;
    same = same && t.step(batch, [](const step_result &) { return true; }).flags == 0;
    std::vector<int32_t> count(1); /* a step in two calls; the learning rate is 0 */
    auto counted = [&] { return t.read({"step", {}, count}), count[0]; };
    int32_t steps = counted();
    t.compute(batch);
    same = same && counted() == steps;
    {
        step::trainer::computed waits = t.compute(batch);
        same = same && waits.result.step == static_cast<uint64_t>(steps) + 1 && counted() == steps;
        waits.commit();
        same = same && counted() == steps + 1;
        try {
            waits.commit();
            same = false;
        } catch (const step::error &e) {
            same = same && e.status == STEP_EINVAL;
        }
    }
    {
        step::trainer::computed older = t.compute(batch);
        step::trainer::computed waits = t.compute(batch);
        try {
            older.commit();
            same = false;
        } catch (const step::error &e) {
            same = same && e.status == STEP_EINVAL;
        }
        waits.commit();
        same = same && counted() == steps + 2;
    }
    step::trainer::computed late = t.compute(batch);
    t.write({"step", {}, count});
    try {
        late.commit();
        same = false;
    } catch (const step::error &e) {
        same = same && e.status == STEP_EINVAL;
    }
    bool refused = false;
    try {
        t.step({{"x", {32, 2}, x}, {"y", {8, 32}, y}});
    } catch (const step::error &e) {
        refused = e.status == STEP_ESHAPE;
    }
    bool good = outputs(argv[2], argv[3]) && dtypes(argv[4]) && before == first && last < first && refused && same &&
                std::fabs(loss - t.eval(batch)) < 1e-5;
    std::printf("C++ host: loss %.6f -> %.6f, %s\n", first, last, good ? "all checks passed" : "FAILED");
    return good ? 0 : 1;
} catch (const std::exception &e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
