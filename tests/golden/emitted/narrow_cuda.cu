extern "C" __global__ void __launch_bounds__(32) kernel_1(const int *__restrict__ b0, const float *__restrict__ b1, float *b2, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool v2 = false;
    const int v4 = (int)21ll;
    const int v7 = (int)0ll;
    const int v9 = (int)19ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const long long i1 = 0;
        const long long i2 = 0;
        const int v11 = (int)(i0);
         {
             {
                if (thread < 3) {
                    const long long i3 = thread;
                    b2[3ll * i0 + i3] = v1;
                }
                 {
                    const long long i4 = 0;
                    bool r0[1];
                    for (int i = 0; i < 1; i++) r0[i] = v2;
                    if (thread < 21) {
                        const long long i5 = thread;
                        const int v3 = (int)(i5);
                        const bool v5 = v3 < v4;
                        const int v6 = v5 ? b0[i5] : (int)0;
                        const int v8 = stepc_max(v6, v7);
                        const int v10 = stepc_min(v8, v9);
                        const bool v12 = v10 == v11;
                        const bool v13 = v5 && v12;
                        r0[0] = r0[0] || v13;
                    }
                    const bool v14 = stepc_any<32>(r0[0]);
                    if (v14) {
                        float r1[1];
                        for (int i = 0; i < 1; i++) r1[i] = v1;
                        if (thread < 3) {
                            const long long i6 = thread;
                            const float v15 = b2[3ll * i0 + i6];
                            r1[0] = v15;
                        }
                        for (long long i7 = 0; i7 < 21ll; i7++) {
                            const int v16 = (int)(i7);
                            const bool v17 = v16 < v4;
                            const int v18 = v17 ? b0[i7] : (int)0;
                            const int v19 = stepc_max(v18, v7);
                            const int v20 = stepc_min(v19, v9);
                            const bool v21 = v20 == v11;
                            const bool v22 = v17 && v21;
                            if (v22) {
                                if (thread < 3) {
                                    const long long i8 = thread;
                                    const float v23 = b1[3ll * i7 + i8];
                                    const float v24 = v23 + v23;
                                    const float v25 = r1[0];
                                    const float v26 = v25 + v24;
                                    r1[0] = v26;
                                }
                            }
                        }
                        if (thread < 3) {
                            const long long i9 = thread;
                            const float v27 = r1[0];
                            b2[3ll * i0 + i9] = v27;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(const float *b0, const double *__restrict__ b1, const float *__restrict__ b2, float *b3, long long lo, long long hi, volatile unsigned *flag)
{
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const double v2 = b1[0];
    const double v3 = -v2;
    const float v4 = (float)v3;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0) && stepc_is_aligned<4>(b2) && stepc_is_aligned<4>(b3);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)gridDim.x * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        const auto few1 = stepc_load_few<4>(b0 + (i0), count, each, whole);
        const auto few5 = stepc_load_few<4>(b2 + (i0), count, each, whole);
        stepc_few<float, 4> out3;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            const float v1 = few1.item[k];
            const float v5 = few5.item[k];
            const float v6 = v4 * v5;
            const float v7 = v1 + v6;
            { out3.item[k] = v7; bad |= stepc_not_finite(v7); }
        }
        stepc_store_few(b3 + (i0), out3, count, each, whole);
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(32) kernel_6(const int *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    const int v3 = (int)19ll;
    const int v5 = (int)0ll;
    #pragma unroll 8
    for (long long i0 = 0; i0 < 21ll; i0++) {
        const int v2 = b0[i0];
        const int v4 = stepc_min(v2, v3);
        const int v6 = stepc_max(v4, v5);
        if (thread < 3) {
            const long long i1 = thread;
            const float v7 = b1[i1 + 3ll * (long long)v6];
            const float v8 = v7 * v7;
            r0[0] = r0[0] + v8;
        }
    }
    const float v9 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return x + y; });
    const float v10 = 63.0f;
    const float v11 = v9 / v10;
    if (thread == 0) b2[0] = v11;
}

extern "C" __global__ void __launch_bounds__(256) kernel_7(const int *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = (int)3ll;
    const int v6 = (int)19ll;
    const int v8 = (int)0ll;
    const bool wide = false;
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)gridDim.x * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        stepc_few<float, 4> out2;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            const int v2 = (int)(i0);
            const int v3 = stepc_div(v2, v1);
            const int v4 = stepc_rem(v2, v1);
            const int v5 = b0[(long long)v3];
            const int v7 = stepc_min(v5, v6);
            const int v9 = stepc_max(v7, v8);
            const float v10 = b1[(long long)v4 + 3ll * (long long)v9];
            out2.item[k] = v10;
        }
        stepc_store_few(b2 + (i0), out2, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) sequence(const __grid_constant__ stepc_table<508> table)
{
    for (unsigned at = 1; at < table.word[0];) {
        switch (table.word[at++]) {
        case 0: {
            if (threadIdx.x < 32) {
                const unsigned thread = threadIdx.x % 32;
                const int *const b0 = (const int *)stepc_global(table.word[at + 0]);
                const float *const b1 = (const float *)stepc_global(table.word[at + 1]);
                float *const b2 = (float *)stepc_global(table.word[at + 2]);
                float *const b3 = (float *)stepc_global(table.word[at + 3]);
                const long long lo = 0, hi = (long long)table.word[at + 5];
                const float v1 = 0.0f;
                float r0[1];
                for (int i = 0; i < 1; i++) r0[i] = v1;
                const float v2 = 0.015873017f;
                const int v4 = (int)19ll;
                const int v6 = (int)0ll;
                for (long long i0 = 0; i0 < 21ll; i0++) {
                    const int v3 = b0[i0];
                    const int v5 = stepc_min(v3, v4);
                    const int v7 = stepc_max(v5, v6);
                    if (thread < 3) {
                        const long long i1 = thread;
                        const float v8 = b1[i1 + 3ll * (long long)v7];
                        const float v9 = v2 * v8;
                        const float v10 = v8 * v8;
                        r0[0] = r0[0] + v10;
                        b3[3ll * i0 + i1] = v9;
                    }
                }
                const float v11 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return x + y; });
                const float v12 = 63.0f;
                const float v13 = v11 / v12;
                if (thread == 0) b2[0] = v13;
            }
            at += 6;
            break;
        }
        case 3: {
            if (threadIdx.x < 32) {
                const unsigned thread = threadIdx.x % 32;
                const int *const b0 = (const int *)stepc_global(table.word[at + 0]);
                int *const b1 = (int *)stepc_global(table.word[at + 1]);
                const long long lo = 0, hi = (long long)table.word[at + 3];
                const int v1 = b0[0];
                const int v2 = (int)2147483647ll;
                const bool v3 = v1 < v2;
                const int v4 = (int)1ll;
                const int v5 = (int)((unsigned)v1 + (unsigned)v4);
                const int v6 = v3 ? v5 : v2;
                __syncwarp();
                if (thread == 0) b1[0] = v6;
            }
            at += 4;
            break;
        }
        case 4: {
            const unsigned thread = threadIdx.x % 256;
            float *const b0 = (float *)stepc_global(table.word[at + 0]);
            const long long lo = 0, hi = (long long)table.word[at + 2];
            const float v1 = -0.99999994f;
            const unsigned v2 = (unsigned)1797259609ll;
            const unsigned v3 = (unsigned)2579123966ll;
            const unsigned v4 = (unsigned)0ll;
            const int v5 = (int)3ll;
            const unsigned v13 = (unsigned)3ll;
            const unsigned v19 = (unsigned)9ll;
            const unsigned v21 = (unsigned)1065353216ll;
            const float v24 = 1.0f;
            const float v26 = 2.0f;
            const float v32 = stepc_bits<float>(0x7f800000u);
            const float v38 = 5.0f;
            const float v40 = 1.5014094f;
            const float v41 = 2.8329768f;
            const float v43 = 0.24664073f;
            const float v44 = 1.001674f;
            const float v46 = -0.0041776816f;
            const float v47 = 0.0094388705f;
            const float v49 = -0.001253725f;
            const float v50 = -0.0076224613f;
            const float v52 = 0.00021858087f;
            const float v53 = 0.0057395077f;
            const float v55 = -4.3915065e-06f;
            const float v56 = -0.0036734284f;
            const float v58 = -3.5233877e-06f;
            const float v59 = 0.0013493432f;
            const float v61 = 3.4327394e-07f;
            const float v62 = 0.00010095056f;
            const float v64 = 2.8102264e-08f;
            const float v65 = -0.00020021426f;
            const float v67 = 2.5f;
            const float v70 = 3.0f;
            const float v91 = 1.4142135f;
            const float v93 = 0.57735026f;
            const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0);
            const int each = wide ? 1 : 256;
            for (long long at = lo + (long long)0 * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)1 * 1024) {
                const long long i0 = at;
                const long long left = wide ? hi - at : (hi - at + 255) / 256;
                const int count = left < 4 ? (int)left : 4;
                const bool whole = wide && count == 4;
                stepc_few<float, 4> out0;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const long long i0 = at + (k < count ? k : count - 1) * each;
                    const int v6 = (int)(i0);
                    const int v7 = stepc_div(v6, v5);
                    const int v8 = stepc_rem(v6, v5);
                    const int v9 = (int)((long long)v8);
                    const unsigned v10 = (unsigned)v9;
                    const int v11 = (int)((long long)v7);
                    const unsigned v12 = (unsigned)v11;
                    const unsigned v14 = (unsigned)((unsigned)v12 * (unsigned)v13);
                    const unsigned v15 = (unsigned)((unsigned)v10 + (unsigned)v14);
                    const unsigned v16 = stepc_threefry(v2, v3, v4, v15, 0);
                    const unsigned v17 = stepc_threefry(v2, v3, v4, v15, 1);
                    const unsigned v18 = (unsigned)(v16 ^ v17);
                    const unsigned v20 = stepc_shr(v18, v19);
                    const unsigned v22 = (unsigned)(v20 | v21);
                    const float v23 = stepc_bits<float>(v22);
                    const float v25 = v23 - v24;
                    const float v27 = v25 * v26;
                    const float v28 = v27 + v1;
                    const float v29 = stepc_max(v1, v28);
                    const float v30 = fabsf(v29);
                    const bool v31 = v30 == v24;
                    const float v33 = v29 * v32;
                    const float v34 = v29 * v29;
                    const float v35 = -v34;
                    const float v36 = log1pf(v35);
                    const float v37 = -v36;
                    const bool v39 = v37 < v38;
                    const float v42 = v39 ? v40 : v41;
                    const float v45 = v39 ? v43 : v44;
                    const float v48 = v39 ? v46 : v47;
                    const float v51 = v39 ? v49 : v50;
                    const float v54 = v39 ? v52 : v53;
                    const float v57 = v39 ? v55 : v56;
                    const float v60 = v39 ? v58 : v59;
                    const float v63 = v39 ? v61 : v62;
                    const float v66 = v39 ? v64 : v65;
                    const float v68 = v37 - v67;
                    const float v69 = sqrtf(v37);
                    const float v71 = v69 - v70;
                    const float v72 = v39 ? v68 : v71;
                    const float v73 = v66 * v72;
                    const float v74 = v63 + v73;
                    const float v75 = v74 * v72;
                    const float v76 = v60 + v75;
                    const float v77 = v76 * v72;
                    const float v78 = v57 + v77;
                    const float v79 = v78 * v72;
                    const float v80 = v54 + v79;
                    const float v81 = v80 * v72;
                    const float v82 = v51 + v81;
                    const float v83 = v82 * v72;
                    const float v84 = v48 + v83;
                    const float v85 = v84 * v72;
                    const float v86 = v45 + v85;
                    const float v87 = v86 * v72;
                    const float v88 = v42 + v87;
                    const float v89 = v88 * v29;
                    const float v90 = v31 ? v33 : v89;
                    const float v92 = v90 * v91;
                    const float v94 = v92 * v93;
                    out0.item[k] = v94;
                }
                stepc_store_few(b0 + (i0), out0, count, each, whole);
            }
            at += 3;
            break;
        }
        case 5: {
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

