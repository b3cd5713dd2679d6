// A host in C++ through samples/step.hpp, on a step.so made of samples/cookbook/model.json.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "step.hpp"

int main(int argc, char **argv)
try {
    if (argc != 2) return 2;
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
    bool refused = false;
    try {
        t.step({{"x", {32, 2}, x}, {"y", {8, 32}, y}});
    } catch (const step::error &e) {
        refused = e.status == STEP_ESHAPE;
    }
    bool good = before == first && last < first && refused && same && std::fabs(loss - t.eval(batch)) < 1e-5;
    std::printf("C++ host: loss %.6f -> %.6f, %s\n", first, last, good ? "all checks passed" : "FAILED");
    return good ? 0 : 1;
} catch (const std::exception &e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
