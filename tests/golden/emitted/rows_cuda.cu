extern "C" __global__ void __launch_bounds__(256) kernel_0(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, float *__restrict__ b4, long long lo, long long hi)
{
    __shared__ __align__(16) float b5_of[8][96];
    float *const b5 = b5_of[threadIdx.x / 32];
    const unsigned thread = threadIdx.x % 32;
    const float v1 = -stepc_bits<float>(0x7f800000u);
    const float v8 = 0.0f;
    const float v20 = 0.00024414062f;
    for (long long i0 = lo + (long long)blockIdx.x * 8 + threadIdx.x / 32; i0 < hi; i0 += (long long)gridDim.x * 8) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i1 = from;
            const auto few2 = stepc_load_whole<4>(b0 + (96ll * i0 + i1), true);
            const auto few3 = stepc_load_whole<4>(b1 + (i1), true);
            const auto few5 = stepc_load_whole<4>(b2 + (i1), true);
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i1 = from + k;
                const float v2 = few2.item[k];
                const float v3 = few3.item[k];
                const float v4 = v2 * v3;
                const float v5 = few5.item[k];
                const float v6 = v4 + v5;
                r0[0] = stepc_max(r0[0], v6);
            }
        }
        const float v7 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return stepc_max(x, y); });
        float r1[1];
        for (int i = 0; i < 1; i++) r1[i] = v8;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i2 = from;
            const auto few9 = stepc_load_whole<4>(b0 + (96ll * i0 + i2), true);
            const auto few10 = stepc_load_whole<4>(b1 + (i2), true);
            const auto few12 = stepc_load_whole<4>(b2 + (i2), true);
            stepc_few<float, 4> out5;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i2 = from + k;
                const float v9 = few9.item[k];
                const float v10 = few10.item[k];
                const float v11 = v9 * v10;
                const float v12 = few12.item[k];
                const float v13 = v11 + v12;
                const float v14 = v13 - v7;
                const float v15 = expf(v14);
                r1[0] = r1[0] + v15;
                out5.item[k] = v15;
            }
            stepc_store_whole(b5 + (i2), out5, true);
        }
        const float v16 = stepc_fold<32>(0, r1[0], [](float x, float y) -> float { return x + y; });
        float r2[1];
        for (int i = 0; i < 1; i++) r2[i] = v8;
        float r3[1];
        for (int i = 0; i < 1; i++) r3[i] = v8;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i3 = from;
            const auto few17 = stepc_load_whole<4>(b5 + (i3), true);
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i3 = from + k;
                const float v17 = few17.item[k];
                const float v18 = v17 / v16;
                const float v19 = v18 * v18;
                r2[0] = r2[0] + v19;
                const float v21 = v20 * v18;
                const float v22 = v21 + v21;
                const float v23 = v22 / v16;
                const float v24 = v23 * v18;
                const float v25 = -v24;
                r3[0] = r3[0] + v25;
            }
        }
        const float v26 = stepc_fold<32>(0, r2[0], [](float x, float y) -> float { return x + y; });
        const float v27 = stepc_fold<32>(0, r3[0], [](float x, float y) -> float { return x + y; });
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i4 = from;
            const auto few28 = stepc_load_whole<4>(b5 + (i4), true);
            const auto few34 = stepc_load_whole<4>(b5 + (i4), true);
            stepc_few<float, 4> out4;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i4 = from + k;
                const float v28 = few28.item[k];
                const float v29 = v28 / v16;
                const float v30 = v20 * v29;
                const float v31 = v30 + v30;
                const float v32 = v31 / v16;
                const float v33 = v32 + v27;
                const float v34 = few34.item[k];
                const float v35 = v33 * v34;
                out4.item[k] = v35;
            }
            stepc_store_whole(b4 + (96ll * i0 + i4), out4, true);
        }
        if (thread == 0) b3[i0] = v26;
    }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_1(const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    __shared__ double folded[32];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    #pragma unroll
    for (long long from = thread * 4; from < 4096ll; from += 4096) {
        const long long i0 = from;
        const auto few2 = stepc_load_whole<4>(b0 + (i0), true);
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = from + k;
            const float v2 = few2.item[k];
            r0[0] = r0[0] + v2;
        }
    }
    const float v3 = stepc_fold<1024>(folded, r0[0], [](float x, float y) -> float { return x + y; });
    const float v4 = 0.00024414062f;
    const float v5 = v3 * v4;
    const float v6 = b1[0];
    const float v7 = v5 + v6;
    __syncthreads();
    if (thread == 0) b2[0] = v7;
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(const float *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    __shared__ double folded[8];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    for (long long from = thread * 2; from < 2050ll; from += 512) {
        const long long i0 = from;
        const auto few2 = stepc_load_whole<2>(b0 + (i0), true);
        #pragma unroll
        for (int k = 0; k < 2; k++) {
            const long long i0 = from + k;
            const float v2 = few2.item[k];
            const float v3 = fabsf(v2);
            r0[0] = r0[0] + v3;
        }
    }
    const float v4 = stepc_fold<256>(folded, r0[0], [](float x, float y) -> float { return x + y; });
    if (thread == 0) b1[0] = v4;
}

extern "C" __global__ void __launch_bounds__(128) kernel_3(const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, float *__restrict__ b3, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        float r1[1];
        for (int i = 0; i < 1; i++) r1[i] = v1;
        #pragma unroll 8
        for (long long i1 = 0; i1 < 64ll; i1++) {
             {
                const long long i2 = 0;
                if (thread < 96) {
                    const long long i3 = thread;
                    const float v2 = b1[6144ll * i0 + 96ll * i1 + i3];
                    r0[0] = r0[0] + v2;
                    const float v3 = b0[6144ll * i0 + 96ll * i1 + i3];
                    const float v4 = v2 * v3;
                    r1[0] = r1[0] + v4;
                }
            }
        }
         {
            const long long i4 = 0;
            if (thread < 96) {
                const long long i5 = thread;
                const float v5 = r0[0];
                const float v6 = r1[0];
                b2[96ll * i0 + i5] = v5;
                b3[96ll * i0 + i5] = v6;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_7(const float *b0, const double *__restrict__ b1, const float *b2, const float *b3, const float *__restrict__ b4, const float *__restrict__ b5, float *b6, float *b7, float *b8, long long lo, long long hi, volatile unsigned *flag)
{
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.1f;
    const float v2 = 0.0f;
    const float v5 = 1.0f;
    const float v6 = -1.0f;
    const float v9 = 0.9f;
    const float v13 = 0.001f;
    const float v16 = 0.999f;
    const double v20 = b1[0];
    const double v21 = -v20;
    const float v22 = (float)v21;
    const float v23 = b4[0];
    const float v24 = v5 - v23;
    const float v26 = b5[0];
    const float v27 = v5 - v26;
    const float v30 = 1e-08f;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0) && stepc_is_aligned<4>(b2) && stepc_is_aligned<4>(b3) && stepc_is_aligned<4>(b6) && stepc_is_aligned<4>(b7) && stepc_is_aligned<4>(b8);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)gridDim.x * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        const auto few3 = stepc_load_few<4>(b0 + (i0), count, each, whole);
        const auto few10 = stepc_load_few<4>(b2 + (i0), count, each, whole);
        const auto few17 = stepc_load_few<4>(b3 + (i0), count, each, whole);
        stepc_few<float, 4> out6;
        stepc_few<float, 4> out7;
        stepc_few<float, 4> out8;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            const float v3 = few3.item[k];
            const bool v4 = v2 <= v3;
            const float v7 = v4 ? v5 : v6;
            const float v8 = v1 * v7;
            const float v10 = few10.item[k];
            const float v11 = v9 * v10;
            const float v12 = v8 + v11;
            const float v14 = v7 * v7;
            const float v15 = v13 * v14;
            const float v17 = few17.item[k];
            const float v18 = v16 * v17;
            const float v19 = v15 + v18;
            const float v25 = v12 / v24;
            const float v28 = v19 / v27;
            const float v29 = sqrtf(v28);
            const float v31 = v29 + v30;
            const float v32 = v25 / v31;
            const float v33 = v22 * v32;
            const float v34 = v3 + v33;
            { out6.item[k] = v12; bad |= stepc_not_finite(v12); }
            { out7.item[k] = v19; bad |= stepc_not_finite(v19); }
            { out8.item[k] = v34; bad |= stepc_not_finite(v34); }
        }
        stepc_store_few(b6 + (i0), out6, count, each, whole);
        stepc_store_few(b7 + (i0), out7, count, each, whole);
        stepc_store_few(b8 + (i0), out8, count, each, whole);
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(256) kernel_8(const __grid_constant__ stepc_table<10> table)
{
    const stepc_member member = stepc_find_member(table.word, 3);
    float *const b0 = (float *)stepc_global(table.word[member.at + 0]);
    const long long lo = 0, hi = member.extent;
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)member.block * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)member.blocks * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        stepc_few<float, 4> out0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            out0.item[k] = v1;
        }
        stepc_store_few(b0 + (i0), out0, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_9(const __grid_constant__ stepc_table<7> table)
{
    const stepc_member member = stepc_find_member(table.word, 3);
    int *const b0 = (int *)stepc_global(table.word[member.at + 0]);
    const long long lo = 0, hi = member.extent;
    const unsigned thread = threadIdx.x;
    const int v1 = (int)0ll;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)member.block * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)member.blocks * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        stepc_few<int, 4> out0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            out0.item[k] = v1;
        }
        stepc_store_few(b0 + (i0), out0, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_10(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, long long lo, long long hi)
{
    __shared__ __align__(16) float b4_of[8][96];
    float *const b4 = b4_of[threadIdx.x / 32];
    const unsigned thread = threadIdx.x % 32;
    const float v1 = -stepc_bits<float>(0x7f800000u);
    const float v8 = 0.0f;
    for (long long i0 = lo + (long long)blockIdx.x * 8 + threadIdx.x / 32; i0 < hi; i0 += (long long)gridDim.x * 8) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i1 = from;
            const auto few2 = stepc_load_whole<4>(b0 + (96ll * i0 + i1), true);
            const auto few3 = stepc_load_whole<4>(b1 + (i1), true);
            const auto few5 = stepc_load_whole<4>(b2 + (i1), true);
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i1 = from + k;
                const float v2 = few2.item[k];
                const float v3 = few3.item[k];
                const float v4 = v2 * v3;
                const float v5 = few5.item[k];
                const float v6 = v4 + v5;
                r0[0] = stepc_max(r0[0], v6);
            }
        }
        const float v7 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return stepc_max(x, y); });
        float r1[1];
        for (int i = 0; i < 1; i++) r1[i] = v8;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i2 = from;
            const auto few9 = stepc_load_whole<4>(b0 + (96ll * i0 + i2), true);
            const auto few10 = stepc_load_whole<4>(b1 + (i2), true);
            const auto few12 = stepc_load_whole<4>(b2 + (i2), true);
            stepc_few<float, 4> out4;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i2 = from + k;
                const float v9 = few9.item[k];
                const float v10 = few10.item[k];
                const float v11 = v9 * v10;
                const float v12 = few12.item[k];
                const float v13 = v11 + v12;
                const float v14 = v13 - v7;
                const float v15 = expf(v14);
                r1[0] = r1[0] + v15;
                out4.item[k] = v15;
            }
            stepc_store_whole(b4 + (i2), out4, true);
        }
        const float v16 = stepc_fold<32>(0, r1[0], [](float x, float y) -> float { return x + y; });
        float r2[1];
        for (int i = 0; i < 1; i++) r2[i] = v8;
        for (long long from = thread * 4; from < 96ll; from += 128) {
            const long long i3 = from;
            const auto few17 = stepc_load_whole<4>(b4 + (i3), true);
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const long long i3 = from + k;
                const float v17 = few17.item[k];
                const float v18 = v17 / v16;
                const float v19 = v18 * v18;
                r2[0] = r2[0] + v19;
            }
        }
        const float v20 = stepc_fold<32>(0, r2[0], [](float x, float y) -> float { return x + y; });
        if (thread == 0) b3[i0] = v20;
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_11(const float *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0) && stepc_is_aligned<4>(b1);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)gridDim.x * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        const auto few1 = stepc_load_few<4>(b0 + (i0), count, each, whole);
        stepc_few<float, 4> out1;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            const float v1 = few1.item[k];
            out1.item[k] = v1;
        }
        stepc_store_few(b1 + (i0), out1, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) sequence(const __grid_constant__ stepc_table<508> table)
{
    for (unsigned at = 1; at < table.word[0];) {
        switch (table.word[at++]) {
        case 4: {
            if (threadIdx.x < 128) {
                const unsigned thread = threadIdx.x % 128;
                for (unsigned member = 0; member < table.word[at]; member++) {
                    const unsigned first = at + 1 + member * 4;
                    const float *const b0 = (const float *)stepc_global(table.word[first + 0]);
                    float *const b1 = (float *)stepc_global(table.word[first + 1]);
                    const long long lo = 0, hi = (long long)table.word[first + 2];
                    const float v1 = 0.0f;
                    float r0[1];
                    for (int i = 0; i < 1; i++) r0[i] = v1;
                    #pragma unroll 8
                    for (long long i0 = 0; i0 < 64ll; i0++) {
                         {
                            const long long i1 = 0;
                            if (thread < 96) {
                                const long long i2 = thread;
                                const float v2 = b0[96ll * i0 + i2];
                                r0[0] = r0[0] + v2;
                            }
                        }
                    }
                     {
                        const long long i3 = 0;
                        if (thread < 96) {
                            const long long i4 = thread;
                            const float v3 = r0[0];
                            b1[i4] = v3;
                        }
                    }
                }
            }
            at += 9;
            break;
        }
        case 5: {
            if (threadIdx.x < 32) {
                const unsigned thread = threadIdx.x % 32;
                const int *const b0 = (const int *)stepc_global(table.word[at + 0]);
                const int *const b1 = (const int *)stepc_global(table.word[at + 1]);
                int *const b2 = (int *)stepc_global(table.word[at + 2]);
                float *const b3 = (float *)stepc_global(table.word[at + 3]);
                float *const b4 = (float *)stepc_global(table.word[at + 4]);
                int *const b5 = (int *)stepc_global(table.word[at + 5]);
                const long long lo = 0, hi = (long long)table.word[at + 7];
                const int v1 = b1[0];
                const int v2 = (int)2147483647ll;
                const bool v3 = v1 < v2;
                const int v4 = (int)1ll;
                const int v5 = (int)((unsigned)v1 + (unsigned)v4);
                const int v6 = v3 ? v5 : v2;
                const float v7 = 0.9f;
                const float v8 = (float)v6;
                const float v9 = powf(v7, v8);
                const float v10 = 0.999f;
                const float v11 = powf(v10, v8);
                const int v12 = b0[0];
                const bool v13 = v12 < v2;
                const int v14 = (int)((unsigned)v12 + (unsigned)v4);
                const int v15 = v13 ? v14 : v2;
                __syncwarp();
                if (thread == 0) b2[0] = v6;
                if (thread == 0) b3[0] = v9;
                if (thread == 0) b4[0] = v11;
                if (thread == 0) b5[0] = v15;
            }
            at += 8;
            break;
        }
        case 6: {
            const unsigned thread = threadIdx.x % 256;
            volatile unsigned *const flag = (unsigned *)stepc_global(table.word[at + 19]);
            bool bad = false;
            const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
            const float *const b1 = (const float *)stepc_global(table.word[at + 1]);
            const double *const b2 = (const double *)stepc_global(table.word[at + 2]);
            const float *const b3 = (const float *)stepc_global(table.word[at + 3]);
            const float *const b4 = (const float *)stepc_global(table.word[at + 4]);
            const float *const b5 = (const float *)stepc_global(table.word[at + 5]);
            const float *const b6 = (const float *)stepc_global(table.word[at + 6]);
            const float *const b7 = (const float *)stepc_global(table.word[at + 7]);
            const float *const b8 = (const float *)stepc_global(table.word[at + 8]);
            const float *const b9 = (const float *)stepc_global(table.word[at + 9]);
            const float *const b10 = (const float *)stepc_global(table.word[at + 10]);
            float *const b11 = (float *)stepc_global(table.word[at + 11]);
            float *const b12 = (float *)stepc_global(table.word[at + 12]);
            float *const b13 = (float *)stepc_global(table.word[at + 13]);
            float *const b14 = (float *)stepc_global(table.word[at + 14]);
            float *const b15 = (float *)stepc_global(table.word[at + 15]);
            float *const b16 = (float *)stepc_global(table.word[at + 16]);
            const long long lo = 0, hi = (long long)table.word[at + 18];
            const float v1 = 0.1f;
            const float v4 = 0.9f;
            const float v8 = 0.001f;
            const float v11 = 0.999f;
            const double v26 = b2[0];
            const double v27 = -v26;
            const float v28 = (float)v27;
            const float v29 = 1.0f;
            const float v30 = b9[0];
            const float v31 = v29 - v30;
            const float v33 = b10[0];
            const float v34 = v29 - v33;
            const float v37 = 1e-08f;
            const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b8) && stepc_is_aligned<4>(b3) && stepc_is_aligned<4>(b5) && stepc_is_aligned<4>(b7) && stepc_is_aligned<4>(b4) && stepc_is_aligned<4>(b6) && stepc_is_aligned<4>(b0) && stepc_is_aligned<4>(b1) && stepc_is_aligned<4>(b11) && stepc_is_aligned<4>(b12) && stepc_is_aligned<4>(b13) && stepc_is_aligned<4>(b14) && stepc_is_aligned<4>(b15) && stepc_is_aligned<4>(b16);
            const int each = wide ? 1 : 256;
            for (long long at = lo + (long long)0 * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)1 * 1024) {
                const long long i0 = at;
                const long long left = wide ? hi - at : (hi - at + 255) / 256;
                const int count = left < 4 ? (int)left : 4;
                const bool whole = wide && count == 4;
                const auto few2 = stepc_load_few<4>(b8 + (i0), count, each, whole);
                const auto few5 = stepc_load_few<4>(b3 + (i0), count, each, whole);
                const auto few12 = stepc_load_few<4>(b5 + (i0), count, each, whole);
                const auto few15 = stepc_load_few<4>(b7 + (i0), count, each, whole);
                const auto few17 = stepc_load_few<4>(b4 + (i0), count, each, whole);
                const auto few22 = stepc_load_few<4>(b6 + (i0), count, each, whole);
                const auto few25 = stepc_load_few<4>(b0 + (i0), count, each, whole);
                const auto few42 = stepc_load_few<4>(b1 + (i0), count, each, whole);
                stepc_few<float, 4> out11;
                stepc_few<float, 4> out12;
                stepc_few<float, 4> out13;
                stepc_few<float, 4> out14;
                stepc_few<float, 4> out15;
                stepc_few<float, 4> out16;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const long long i0 = at + (k < count ? k : count - 1) * each;
                    const float v2 = few2.item[k];
                    const float v3 = v1 * v2;
                    const float v5 = few5.item[k];
                    const float v6 = v4 * v5;
                    const float v7 = v3 + v6;
                    const float v9 = v2 * v2;
                    const float v10 = v8 * v9;
                    const float v12 = few12.item[k];
                    const float v13 = v11 * v12;
                    const float v14 = v10 + v13;
                    const float v15 = few15.item[k];
                    const float v16 = v1 * v15;
                    const float v17 = few17.item[k];
                    const float v18 = v4 * v17;
                    const float v19 = v16 + v18;
                    const float v20 = v15 * v15;
                    const float v21 = v8 * v20;
                    const float v22 = few22.item[k];
                    const float v23 = v11 * v22;
                    const float v24 = v21 + v23;
                    const float v25 = few25.item[k];
                    const float v32 = v7 / v31;
                    const float v35 = v14 / v34;
                    const float v36 = sqrtf(v35);
                    const float v38 = v36 + v37;
                    const float v39 = v32 / v38;
                    const float v40 = v28 * v39;
                    const float v41 = v25 + v40;
                    const float v42 = few42.item[k];
                    const float v43 = v19 / v31;
                    const float v44 = v24 / v34;
                    const float v45 = sqrtf(v44);
                    const float v46 = v45 + v37;
                    const float v47 = v43 / v46;
                    const float v48 = v28 * v47;
                    const float v49 = v42 + v48;
                    { out11.item[k] = v7; bad |= stepc_not_finite(v7); }
                    { out12.item[k] = v14; bad |= stepc_not_finite(v14); }
                    { out13.item[k] = v19; bad |= stepc_not_finite(v19); }
                    { out14.item[k] = v24; bad |= stepc_not_finite(v24); }
                    { out15.item[k] = v41; bad |= stepc_not_finite(v41); }
                    { out16.item[k] = v49; bad |= stepc_not_finite(v49); }
                }
                stepc_store_few(b11 + (i0), out11, count, each, whole);
                stepc_store_few(b12 + (i0), out12, count, each, whole);
                stepc_store_few(b13 + (i0), out13, count, each, whole);
                stepc_store_few(b14 + (i0), out14, count, each, whole);
                stepc_store_few(b15 + (i0), out15, count, each, whole);
                stepc_store_few(b16 + (i0), out16, count, each, whole);
            }
            if (bad) *flag |= 1;
            at += 20;
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

