// The same by step.hpp.
#include <cstdio>
#include <vector>
#include <stepc/step.hpp>

int main()
{
    step::trainer trainer(GAME_STEP);
    std::vector<float> x(32), y(24);
    for (int i = 0; i < 32; i++) x[i] = static_cast<float>(i * 37 % 64) / 32 - 1;
    for (int i = 0; i < 24; i++) y[i] = x[i] * x[i + 1];
    trainer.init();
    for (int i = 0; i < 50; i++) {
        const double loss = trainer.step({step::array("x", {8, 4}, x), step::array("y", {8, 3}, y)});
        if (i % 49 == 0) std::printf("%.6g\n", loss);
    }
}
