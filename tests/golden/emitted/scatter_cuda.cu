extern "C" __global__ void __launch_bounds__(256) kernel_1(const int *__restrict__ b0, const float *__restrict__ b1, float *b2, long long lo, long long hi)
{
    __shared__ double folded[8];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool v2 = false;
    const int v4 = (int)150ll;
    const int v7 = (int)0ll;
    const int v9 = (int)299ll;
    const float v31 = 0.00027777778f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const long long i1 = 0;
        const long long i2 = 0;
        const int v11 = (int)(i0);
         {
             {
                if (thread < 24) {
                    const long long i3 = thread;
                    b2[24ll * i0 + i3] = v1;
                }
                 {
                    const long long i4 = 0;
                    bool r0[1];
                    for (int i = 0; i < 1; i++) r0[i] = v2;
                    if (thread < 150) {
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
                    const bool v14 = stepc_any<256>(r0[0]);
                    if (v14) {
                        for (long long i6 = 0; i6 < 2ll; i6++) {
                            bool r1[1];
                            for (int i = 0; i < 1; i++) r1[i] = v2;
                            if (thread < 128) {
                                const long long i7 = thread;
                                const int v15 = (int)(128ll * i6 + i7);
                                const bool v16 = v15 < v4;
                                const int v17 = v16 ? b0[128ll * i6 + i7] : (int)0;
                                const int v18 = stepc_max(v17, v7);
                                const int v19 = stepc_min(v18, v9);
                                const bool v20 = v19 == v11;
                                const bool v21 = v16 && v20;
                                r1[0] = r1[0] || v21;
                            }
                            const bool v22 = stepc_any<256>(r1[0]);
                            if (v22) {
                                float r2[1];
                                for (int i = 0; i < 1; i++) r2[i] = v1;
                                if (thread < 24) {
                                    const long long i8 = thread;
                                    const float v23 = b2[24ll * i0 + i8];
                                    r2[0] = v23;
                                }
                                for (long long i9 = 0; i9 < 128ll; i9++) {
                                    const int v24 = (int)(128ll * i6 + i9);
                                    const bool v25 = v24 < v4;
                                    const int v26 = v25 ? b0[128ll * i6 + i9] : (int)0;
                                    const int v27 = stepc_max(v26, v7);
                                    const int v28 = stepc_min(v27, v9);
                                    const bool v29 = v28 == v11;
                                    const bool v30 = v25 && v29;
                                    if (v30) {
                                        if (thread < 24) {
                                            const long long i10 = thread;
                                            const float v32 = b1[3072ll * i6 + 24ll * i9 + i10];
                                            const float v33 = v31 * v32;
                                            const float v34 = v33 + v33;
                                            const float v35 = r2[0];
                                            const float v36 = v35 + v34;
                                            r2[0] = v36;
                                        }
                                    }
                                }
                                if (thread < 24) {
                                    const long long i11 = thread;
                                    const float v37 = r2[0];
                                    b2[24ll * i0 + i11] = v37;
                                }
                            }
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

extern "C" __global__ void __launch_bounds__(32) kernel_4(float *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = -0.99999994f;
    const unsigned v2 = (unsigned)1797259609ll;
    const unsigned v3 = (unsigned)2579123966ll;
    const unsigned v4 = (unsigned)0ll;
    const unsigned v9 = (unsigned)24ll;
    const unsigned v15 = (unsigned)9ll;
    const unsigned v17 = (unsigned)1065353216ll;
    const float v20 = 1.0f;
    const float v22 = 2.0f;
    const float v28 = stepc_bits<float>(0x7f800000u);
    const float v34 = 5.0f;
    const float v36 = 1.5014094f;
    const float v37 = 2.8329768f;
    const float v39 = 0.24664073f;
    const float v40 = 1.001674f;
    const float v42 = -0.0041776816f;
    const float v43 = 0.0094388705f;
    const float v45 = -0.001253725f;
    const float v46 = -0.0076224613f;
    const float v48 = 0.00021858087f;
    const float v49 = 0.0057395077f;
    const float v51 = -4.3915065e-06f;
    const float v52 = -0.0036734284f;
    const float v54 = -3.5233877e-06f;
    const float v55 = 0.0013493432f;
    const float v57 = 3.4327394e-07f;
    const float v58 = 0.00010095056f;
    const float v60 = 2.8102264e-08f;
    const float v61 = -0.00020021426f;
    const float v63 = 2.5f;
    const float v66 = 3.0f;
    const float v87 = 1.4142135f;
    const float v89 = 0.20412415f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v7 = (int)(i0);
        const unsigned v8 = (unsigned)v7;
        const unsigned v10 = (unsigned)((unsigned)v8 * (unsigned)v9);
        if (thread < 24) {
            const long long i1 = thread;
            const int v5 = (int)(i1);
            const unsigned v6 = (unsigned)v5;
            const unsigned v11 = (unsigned)((unsigned)v6 + (unsigned)v10);
            const unsigned v12 = stepc_threefry(v2, v3, v4, v11, 0);
            const unsigned v13 = stepc_threefry(v2, v3, v4, v11, 1);
            const unsigned v14 = (unsigned)(v12 ^ v13);
            const unsigned v16 = stepc_shr(v14, v15);
            const unsigned v18 = (unsigned)(v16 | v17);
            const float v19 = stepc_bits<float>(v18);
            const float v21 = v19 - v20;
            const float v23 = v21 * v22;
            const float v24 = v23 + v1;
            const float v25 = stepc_max(v1, v24);
            const float v26 = fabsf(v25);
            const bool v27 = v26 == v20;
            const float v29 = v25 * v28;
            const float v30 = v25 * v25;
            const float v31 = -v30;
            const float v32 = log1pf(v31);
            const float v33 = -v32;
            const bool v35 = v33 < v34;
            const float v38 = v35 ? v36 : v37;
            const float v41 = v35 ? v39 : v40;
            const float v44 = v35 ? v42 : v43;
            const float v47 = v35 ? v45 : v46;
            const float v50 = v35 ? v48 : v49;
            const float v53 = v35 ? v51 : v52;
            const float v56 = v35 ? v54 : v55;
            const float v59 = v35 ? v57 : v58;
            const float v62 = v35 ? v60 : v61;
            const float v64 = v33 - v63;
            const float v65 = sqrtf(v33);
            const float v67 = v65 - v66;
            const float v68 = v35 ? v64 : v67;
            const float v69 = v62 * v68;
            const float v70 = v59 + v69;
            const float v71 = v70 * v68;
            const float v72 = v56 + v71;
            const float v73 = v72 * v68;
            const float v74 = v53 + v73;
            const float v75 = v74 * v68;
            const float v76 = v50 + v75;
            const float v77 = v76 * v68;
            const float v78 = v47 + v77;
            const float v79 = v78 * v68;
            const float v80 = v44 + v79;
            const float v81 = v80 * v68;
            const float v82 = v41 + v81;
            const float v83 = v82 * v68;
            const float v84 = v38 + v83;
            const float v85 = v84 * v25;
            const float v86 = v27 ? v29 : v85;
            const float v88 = v86 * v87;
            const float v90 = v88 * v89;
            b0[24ll * i0 + i1] = v90;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) kernel_5(int *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = (int)0ll;
    if (thread == 0) b0[0] = v1;
}

extern "C" __global__ void __launch_bounds__(32) kernel_6(const int *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    const int v3 = (int)299ll;
    const int v5 = (int)0ll;
    #pragma unroll 8
    for (long long i0 = 0; i0 < 150ll; i0++) {
        const int v2 = b0[i0];
        const int v4 = stepc_min(v2, v3);
        const int v6 = stepc_max(v4, v5);
        if (thread < 24) {
            const long long i1 = thread;
            const float v7 = b1[i1 + 24ll * (long long)v6];
            const float v8 = v7 * v7;
            r0[0] = r0[0] + v8;
        }
    }
    const float v9 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return x + y; });
    const float v10 = 3600.0f;
    const float v11 = v9 / v10;
    if (thread == 0) b2[0] = v11;
}

extern "C" __global__ void __launch_bounds__(32) kernel_7(const int *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v2 = (int)299ll;
    const int v4 = (int)0ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v1 = b0[i0];
        const int v3 = stepc_min(v1, v2);
        const int v5 = stepc_max(v3, v4);
        if (thread < 24) {
            const long long i1 = thread;
            const float v6 = b1[i1 + 24ll * (long long)v5];
            b2[24ll * i0 + i1] = v6;
        }
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
                const int v3 = (int)299ll;
                const int v5 = (int)0ll;
                for (long long i0 = 0; i0 < 150ll; i0++) {
                    const int v2 = b0[i0];
                    const int v4 = stepc_min(v2, v3);
                    const int v6 = stepc_max(v4, v5);
                    if (thread < 24) {
                        const long long i1 = thread;
                        const float v7 = b1[i1 + 24ll * (long long)v6];
                        const float v8 = v7 * v7;
                        r0[0] = r0[0] + v8;
                        b2[24ll * i0 + i1] = v7;
                    }
                }
                const float v9 = stepc_fold<32>(0, r0[0], [](float x, float y) -> float { return x + y; });
                const float v10 = 3600.0f;
                const float v11 = v9 / v10;
                if (thread == 0) b3[0] = v11;
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
        default: { /* what is moved */
            stepc_move(table.word + at, threadIdx.x, 256);
            at += 1 + 3 * (unsigned)table.word[at];
        }
        }
        __syncthreads();
    }
}

