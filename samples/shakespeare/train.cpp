// Trains samples/shakespeare/model.json from C++: random windows of a text, a validation loss on its last tenth,
// and at the end a text written by the model. With a run directory it saves into it while it trains and when Ctrl-C
// stops it; started again it continues from there, to the same numbers as if nothing had stopped it.
//
//   train step.so tinyshakespeare.txt [steps [run-directory]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "step.hpp"

namespace
{

constexpr int batch = 12, context = 64, vocabulary = 65;

// The first signal ends the training after the step that runs, the second one the program.
volatile std::sig_atomic_t stopped = 0;
extern "C" void stop(int number)
{
    stopped = number;
    std::signal(number, SIG_DFL);
}

struct windows {
    std::vector<int32_t> text; // character numbers
    std::mt19937_64 random;
    std::vector<int32_t> tokens = std::vector<int32_t>(batch * context), targets = tokens;

    std::vector<step::array> next()
    {
        std::uniform_int_distribution<size_t> start(0, text.size() - context - 1);
        for (int row = 0; row < batch; row++) {
            auto from = text.begin() + static_cast<std::ptrdiff_t>(start(random));
            std::copy_n(from, context, tokens.begin() + row * context);
            std::copy_n(from + 1, context, targets.begin() + row * context);
        }
        return {{"tokens", {batch, context}, tokens}, {"targets", {batch, context}, targets}};
    }
};

double validation_loss(step::trainer &trainer, windows &held_out, int batches)
{
    double sum = 0;
    for (int i = 0; i < batches; i++) sum += trainer.eval(held_out.next());
    return sum / batches;
}

// The state, and beside it what this program decides the next step by: its number and where the random windows are.
step::checkpoint_job save(step::trainer &trainer, const windows &training, int step, const std::string &folder)
{
    std::ostringstream text;
    text << '"' << step << ' ' << training.random << '"';
    return trainer.save_into(folder, "latest=2", {{"windows", text.str()}});
}

// Everything as the newest checkpoint of the folder has it; the step after which it was saved, 0: there is none yet.
int resume(step::trainer &trainer, windows &training, const std::string &folder)
{
    if (folder.empty() || !std::filesystem::is_directory(folder)) return 0;
    try {
        trainer.load(folder);
    } catch (const step::error &e) {
        if (e.status == STEP_ENOTFOUND) return 0;
        if (e.status != STEP_ESHAPE) throw;
        throw std::runtime_error(std::string(e.what()) + "\n" + folder +
                                 " is another model's; remove it to begin anew");
    }
    int step = 0;
    std::istringstream text(trainer.item("windows"));
    text.ignore(1);
    if (!(text >> step >> training.random)) throw std::runtime_error(folder + ": not saved by this program");
    return step;
}

// Samples `count` characters, one at a time, from the softmax of the last position.
std::string generate(step::trainer &trainer, const std::string &alphabet, int count)
{
    std::vector<int32_t> tokens(batch * context, 0);
    std::vector<float> logits(static_cast<size_t>(batch) * context * vocabulary);
    std::vector<int32_t> written{static_cast<int32_t>(alphabet.find('\n'))};
    std::mt19937_64 random(7);
    while (static_cast<int>(written.size()) <= count) {
        size_t used = std::min<size_t>(written.size(), context);
        std::copy(written.end() - static_cast<std::ptrdiff_t>(used), written.end(), tokens.begin());
        trainer.infer({{"tokens", {batch, context}, tokens}}, {"model", {batch, context, vocabulary}, logits});
        const float *last = logits.data() + (used - 1) * vocabulary;
        float top = *std::max_element(last, last + vocabulary);
        std::vector<double> weight(vocabulary);
        for (size_t i = 0; i < weight.size(); i++) weight[i] = std::exp((last[i] - top) / 0.8);
        written.push_back(std::discrete_distribution<int32_t>(weight.begin(), weight.end())(random));
    }
    std::string out;
    for (int32_t c : written) out += alphabet[static_cast<size_t>(c)];
    return out;
}

} // namespace

int main(int argc, char **argv)
try {
    if (argc < 3) return std::fprintf(stderr, "usage: %s step.so text [steps]\n", argv[0]), 2;
    int steps = argc > 3 ? std::atoi(argv[3]) : 2000;
    std::ifstream file(argv[2], std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}}, alphabet = text;
    std::sort(alphabet.begin(), alphabet.end());
    alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
    if (alphabet.size() != vocabulary)
        return std::fprintf(stderr, "%s: %zu different characters, expected %d\n", argv[2], alphabet.size(),
                            vocabulary),
               1;
    std::vector<int32_t> numbers;
    for (char c : text) numbers.push_back(static_cast<int32_t>(alphabet.find(c)));
    auto cut = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() * 9 / 10);
    windows training{{numbers.begin(), cut}, std::mt19937_64(1337)}, held_out{{cut, numbers.end()}, std::mt19937_64(1)};

    std::string folder = argc > 4 ? argv[4] : "";
    step::trainer trainer(argv[1]);
    trainer.init();
    std::printf("%zu characters to train on, %zu held out\n", training.text.size(), held_out.text.size());
    int begin = resume(trainer, training, folder);
    if (begin)
        std::printf("continued after step %d of %d from %s%s; remove it to begin anew\n", begin, steps, folder.c_str(),
                    begin < steps ? "" : ": nothing is left to train");
    if (!folder.empty())
        for (int number : {SIGINT, SIGTERM}) std::signal(number, stop);
    auto start = std::chrono::steady_clock::now();
    for (int i = begin + 1; i <= steps; i++) {
        double loss = trainer.step(training.next());
        bool told = i == 1 || i == steps || i % std::max(1, steps / 10) == 0;
        if (told) {
            double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                   rate = (i - begin) / seconds;
            std::printf("step %5d/%d  loss %.4f  %6.1f steps/s  ETA %.0f s\n", i, steps, loss, rate,
                        (steps - i) / rate);
            std::fflush(stdout);
        }
        int by = stopped;
        if (!folder.empty() && (told || by)) {
            auto job = save(trainer, training, i, folder); // beside the next steps, unless there are none
            if (by || i == steps) job.wait();
        }
        if (!by || i == steps) continue;
        std::printf("stopped after step %d of %d; %s has its state: start again to continue\n", i, steps,
                    folder.c_str());
        std::fflush(stdout);
        std::signal(by, SIG_DFL);
        std::raise(by);
    }
    for (int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
    std::printf("validation loss %.4f\n\n%s\n", validation_loss(trainer, held_out, 200),
                generate(trainer, alphabet, 500).c_str());
    return 0;
} catch (const std::exception &e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
