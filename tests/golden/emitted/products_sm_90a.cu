extern "C" __global__ void __launch_bounds__(256, 2) kernel_0(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *__restrict__ b3, unsigned short *__restrict__ b4, long long lo, long long hi)
{
    stepc_escape(b3);
    stepc_escape(b4);
    unsigned *const b5 = (unsigned *)(stepc_dynamic + 0);
    unsigned *const b6 = (unsigned *)(stepc_dynamic + 32768);
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v13 = (int)200ll;
    const int v16 = (int)8ll;
    const int v21 = (int)20ll;
    const int v26 = (int)1ll;
    const int v43 = (int)32ll;
    const int v52 = (int)80ll;
    const float v60 = 2.0f;
    const float v64 = 0.000031232834f;
    const float v71 = 1.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        stepc_warpgroup_wait<64, 0>(r0);
        stepc_copies_wait<0>();
        stepc_warpgroup_ready();
        __syncthreads();
        for (long long i1 = 0; i1 < 2ll; i1++) {
            const int v7 = (int)(i1);
            const int v8 = stepc_rem(v7, v6);
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = thread;
                    const int v9 = (int)(i3);
                    const int v10 = stepc_rem(v9, v6);
                    const int v11 = stepc_div(v9, v6);
                    const int v12 = (int)(64ll * i2 + (long long)v11 + 128ll * (long long)v4);
                    const bool v14 = v12 < v13;
                    stepc_copy(&b5[stepc_swizzled<64>(16ll * (long long)v11 + 4ll * (long long)v10) + 1024ll * i2 + 2048ll * (long long)v8], b0 + (32ll * i1 + 96ll * (long long)v12 + 8ll * (long long)v10), v14);
                }
            }
            #pragma unroll
            for (long long i4 = 0; i4 < 2ll; i4++) {
                 {
                    const long long i5 = 0;
                     {
                        const long long i6 = thread;
                        const int v17 = (int)(i6);
                        const int v18 = stepc_rem(v17, v16);
                        const int v19 = stepc_div(v17, v16);
                        const int v20 = (int)(8ll * i4 + (long long)v18 + 16ll * (long long)v3);
                        const bool v22 = v20 < v21;
                        stepc_copy(&b6[stepc_swizzled<128>(4ll * (long long)v18 + 32ll * (long long)v19) + 1024ll * i4 + 2048ll * (long long)v8], b1 + (5120ll * i1 + 8ll * (long long)v20 + 160ll * (long long)v19), v22);
                    }
                }
            }
            stepc_copies_end();
        }
        for (long long i7 = 0; i7 < 3ll; i7++) {
            const int v24 = (int)(i7);
            const int v25 = stepc_rem(v24, v6);
            stepc_warpgroup_wait<64, 1>(r0);
            stepc_copies_wait<1>();
            stepc_warpgroup_ready();
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b5 + (2048ll * (long long)v25), b6 + (2048ll * (long long)v25));
            const bool v27 = v24 < v26;
            const int v28 = (int)(i7 + 2);
            const int v29 = (int)((long long)v28);
            const int v30 = stepc_rem(v29, v6);
            if (v27) {
                #pragma unroll
                for (long long i8 = 0; i8 < 2ll; i8++) {
                     {
                        const long long i9 = thread;
                        const int v31 = (int)(i9);
                        const int v32 = stepc_rem(v31, v6);
                        const int v33 = stepc_div(v31, v6);
                        const int v34 = (int)(64ll * i8 + (long long)v33 + 128ll * (long long)v4);
                        const bool v35 = v34 < v13;
                        stepc_copy(&b5[stepc_swizzled<64>(16ll * (long long)v33 + 4ll * (long long)v32) + 1024ll * i8 + 2048ll * (long long)v30], b0 + (96ll * (long long)v34 + 8ll * (long long)v32 + 32ll * (long long)v28), v35);
                    }
                }
                #pragma unroll
                for (long long i10 = 0; i10 < 2ll; i10++) {
                     {
                        const long long i11 = 0;
                         {
                            const long long i12 = thread;
                            const int v37 = (int)(i12);
                            const int v38 = stepc_rem(v37, v16);
                            const int v39 = stepc_div(v37, v16);
                            const int v40 = (int)(8ll * i10 + (long long)v38 + 16ll * (long long)v3);
                            const bool v41 = v40 < v21;
                            stepc_copy(&b6[stepc_swizzled<128>(4ll * (long long)v38 + 32ll * (long long)v39) + 1024ll * i10 + 2048ll * (long long)v30], b1 + (8ll * (long long)v40 + 160ll * (long long)v39 + 5120ll * (long long)v28), v41);
                        }
                    }
                }
            }
            stepc_copies_end();
        }
        stepc_warpgroup_wait<64, 0>(r0);
        #pragma unroll 1
        for (long long i13 = 0; i13 < 2ll; i13++) {
             {
                const long long i14 = 0;
                #pragma unroll
                for (long long i15 = 0; i15 < 2ll; i15++) {
                    #pragma unroll
                    for (long long i16 = 0; i16 < 8ll; i16++) {
                         {
                            const long long i17 = 0;
                             {
                                const long long i18 = thread;
                                const int v44 = (int)(i18);
                                const int v45 = stepc_div(v44, v43);
                                const int v46 = stepc_div(v44, v6);
                                const int v47 = stepc_rem(v46, v16);
                                const int v48 = stepc_rem(v44, v6);
                                const int v49 = (int)(8ll * i15 + 16ll * (long long)v45 + (long long)v47 + 128ll * (long long)v4);
                                const bool v50 = v49 < v13;
                                const int v51 = (int)(32ll * i13 + 4ll * i16 + (long long)v48 + 64ll * (long long)v3);
                                const bool v53 = v51 < v52;
                                const bool v54 = v50 && v53;
                                const float v55 = r0[2ll * i15 + 4ll * i16];
                                const float v56 = stepc_bf16_round((float)v55);
                                const auto wide57 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v51)), v54);
                                const float v57 = stepc_bf16_value(stepc_half<0>(wide57.item[0]));
                                const float v58 = stepc_bf16_add(v56, v57);
                                const float v59 = stepc_bf16_round(tanhf(v58));
                                const float v61 = stepc_bf16_mul(v59, v60);
                                const float v62 = stepc_bf16_round(cosf(v61));
                                const float v63 = stepc_bf16_mul(v61, v62);
                                const float v65 = stepc_bf16_mul(v64, v62);
                                const float v66 = stepc_bf16_mul(v64, v61);
                                const float v67 = stepc_bf16_round(sinf(v61));
                                const float v68 = stepc_bf16_mul(v66, v67);
                                const float v69 = stepc_bf16_sub(v65, v68);
                                const float v70 = stepc_bf16_mul(v69, v60);
                                const float v72 = stepc_bf16_sub(v71, v59);
                                const float v73 = stepc_bf16_mul(v70, v72);
                                const float v74 = stepc_bf16_mul(v73, v59);
                                const float v75 = stepc_bf16_add(v73, v74);
                                const float v76 = r0[2ll * i15 + 4ll * i16 + 1];
                                const float v77 = stepc_bf16_round((float)v76);
                                const float v78 = stepc_bf16_value(stepc_half<1>(wide57.item[0]));
                                const float v79 = stepc_bf16_add(v77, v78);
                                const float v80 = stepc_bf16_round(tanhf(v79));
                                const float v81 = stepc_bf16_mul(v80, v60);
                                const float v82 = stepc_bf16_round(cosf(v81));
                                const float v83 = stepc_bf16_mul(v81, v82);
                                const float v84 = stepc_bf16_mul(v64, v82);
                                const float v85 = stepc_bf16_mul(v64, v81);
                                const float v86 = stepc_bf16_round(sinf(v81));
                                const float v87 = stepc_bf16_mul(v85, v86);
                                const float v88 = stepc_bf16_sub(v84, v87);
                                const float v89 = stepc_bf16_mul(v88, v60);
                                const float v90 = stepc_bf16_sub(v71, v80);
                                const float v91 = stepc_bf16_mul(v89, v90);
                                const float v92 = stepc_bf16_mul(v91, v80);
                                const float v93 = stepc_bf16_add(v91, v92);
                                stepc_few<unsigned short, 2> run3_63;
                                run3_63.item[0] = stepc_bf16_bits(v63);
                                stepc_few<unsigned short, 2> run4_75;
                                run4_75.item[0] = stepc_bf16_bits(v75);
                                run3_63.item[1] = stepc_bf16_bits(v83);
                                stepc_store_whole(b3 + (2ll * (long long)v51 + 160ll * (long long)v49), run3_63, v54);
                                run4_75.item[1] = stepc_bf16_bits(v93);
                                stepc_store_whole(b4 + (2ll * (long long)v51 + 160ll * (long long)v49), run4_75, v54);
                            }
                        }
                    }
                }
            }
            #pragma unroll
            for (long long i19 = 0; i19 < 32ll; i19++) {
                 {
                    const long long i20 = thread;
                    const float v94 = r0[i19 + 32];
                    r0[i19] = v94;
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
    unsigned *const b5 = (unsigned *)(stepc_dynamic + 0);
    unsigned *const b6 = (unsigned *)(stepc_dynamic + 32768);
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const int v2 = (int)4ll;
    const int v5 = (int)8ll;
    const int v10 = (int)12ll;
    const int v17 = (int)20ll;
    const int v22 = (int)5ll;
    const int v33 = (int)200ll;
    const int v46 = (int)32ll;
    const int v53 = (int)96ll;
    const int v56 = (int)80ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v1;
        stepc_warpgroup_wait<64, 0>(r0);
        stepc_copies_wait<0>();
        stepc_warpgroup_ready();
        __syncthreads();
        for (long long i1 = 0; i1 < 2ll; i1++) {
            const int v3 = (int)(i1);
            const int v4 = stepc_rem(v3, v2);
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = 0;
                     {
                        const long long i4 = thread;
                        const int v6 = (int)(i4);
                        const int v7 = stepc_rem(v6, v5);
                        const int v8 = stepc_div(v6, v5);
                        const int v9 = (int)(8ll * i2 + (long long)v7);
                        const bool v11 = v9 < v10;
                        stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v7 + 32ll * (long long)v8) + 1024ll * i2 + 2048ll * (long long)v4], b0 + (3072ll * i1 + 8ll * (long long)v9 + 96ll * (long long)v8), v11);
                    }
                }
            }
            #pragma unroll
            for (long long i5 = 0; i5 < 2ll; i5++) {
                 {
                    const long long i6 = 0;
                     {
                        const long long i7 = thread;
                        const int v13 = (int)(i7);
                        const int v14 = stepc_rem(v13, v5);
                        const int v15 = stepc_div(v13, v5);
                        const int v16 = (int)(16ll * i0 + 8ll * i5 + (long long)v14);
                        const bool v18 = v16 < v17;
                        stepc_copy(&b6[stepc_swizzled<128>(4ll * (long long)v14 + 32ll * (long long)v15) + 1024ll * i5 + 2048ll * (long long)v4], b3 + (5120ll * i1 + 8ll * (long long)v16 + 160ll * (long long)v15), v18);
                    }
                }
            }
            stepc_copies_end();
        }
        for (long long i8 = 0; i8 < 7ll; i8++) {
            const int v20 = (int)(i8);
            const int v21 = stepc_rem(v20, v2);
            stepc_warpgroup_wait<64, 1>(r0);
            stepc_copies_wait<1>();
            stepc_warpgroup_ready();
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, false, false>(r0, b5 + (2048ll * (long long)v21), b6 + (2048ll * (long long)v21));
            const bool v23 = v20 < v22;
            const int v24 = (int)(i8 + 2);
            const int v25 = (int)((long long)v24);
            const int v26 = stepc_rem(v25, v2);
            if (v23) {
                #pragma unroll
                for (long long i9 = 0; i9 < 2ll; i9++) {
                     {
                        const long long i10 = 0;
                         {
                            const long long i11 = thread;
                            const int v27 = (int)(i11);
                            const int v28 = stepc_rem(v27, v5);
                            const int v29 = stepc_div(v27, v5);
                            const int v30 = (int)(8ll * i9 + (long long)v28);
                            const bool v31 = v30 < v10;
                            const int v32 = (int)((long long)v29 + 32ll * (long long)v24);
                            const bool v34 = v32 < v33;
                            const bool v35 = v31 && v34;
                            stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v28 + 32ll * (long long)v29) + 1024ll * i9 + 2048ll * (long long)v26], b0 + (8ll * (long long)v30 + 96ll * (long long)v32), v35);
                        }
                    }
                }
                #pragma unroll
                for (long long i12 = 0; i12 < 2ll; i12++) {
                     {
                        const long long i13 = 0;
                         {
                            const long long i14 = thread;
                            const int v37 = (int)(i14);
                            const int v38 = stepc_rem(v37, v5);
                            const int v39 = stepc_div(v37, v5);
                            const int v40 = (int)(16ll * i0 + 8ll * i12 + (long long)v38);
                            const bool v41 = v40 < v17;
                            const int v42 = (int)((long long)v39 + 32ll * (long long)v24);
                            const bool v43 = v42 < v33;
                            const bool v44 = v41 && v43;
                            stepc_copy(&b6[stepc_swizzled<128>(4ll * (long long)v38 + 32ll * (long long)v39) + 1024ll * i12 + 2048ll * (long long)v26], b3 + (8ll * (long long)v40 + 160ll * (long long)v42), v44);
                        }
                    }
                }
            }
            stepc_copies_end();
        }
        stepc_warpgroup_wait<64, 0>(r0);
        #pragma unroll 1
        for (long long i15 = 0; i15 < 2ll; i15++) {
             {
                const long long i16 = 0;
                #pragma unroll
                for (long long i17 = 0; i17 < 2ll; i17++) {
                    #pragma unroll
                    for (long long i18 = 0; i18 < 8ll; i18++) {
                         {
                            const long long i19 = 0;
                             {
                                const long long i20 = thread;
                                const int v47 = (int)(i20);
                                const int v48 = stepc_div(v47, v46);
                                const int v49 = stepc_div(v47, v2);
                                const int v50 = stepc_rem(v49, v5);
                                const int v51 = stepc_rem(v47, v2);
                                const int v52 = (int)(8ll * i17 + 16ll * (long long)v48 + (long long)v50);
                                const bool v54 = v52 < v53;
                                const int v55 = (int)(64ll * i0 + 32ll * i15 + 4ll * i18 + (long long)v51);
                                const bool v57 = v55 < v56;
                                const bool v58 = v54 && v57;
                                const float v59 = r0[2ll * i17 + 4ll * i18];
                                const float v60 = stepc_bf16_round((float)v59);
                                const auto wide61 = stepc_load_whole<1>((const unsigned *)(b1 + (2ll * (long long)v55 + 160ll * (long long)v52)), v58);
                                const float v61 = stepc_bf16_value(stepc_half<0>(wide61.item[0]));
                                const double v62 = v58 ? b2[0] : (double)0;
                                const double v63 = -v62;
                                const float v64 = stepc_bf16_round((float)v63);
                                const float v65 = stepc_bf16_mul(v64, v60);
                                const float v66 = stepc_bf16_add(v61, v65);
                                const float v67 = r0[2ll * i17 + 4ll * i18 + 1];
                                const float v68 = stepc_bf16_round((float)v67);
                                const float v69 = stepc_bf16_value(stepc_half<1>(wide61.item[0]));
                                const float v70 = stepc_bf16_mul(v64, v68);
                                const float v71 = stepc_bf16_add(v69, v70);
                                stepc_few<unsigned short, 2> run4_66;
                                run4_66.item[0] = stepc_bf16_bits(v66);
                                if (v58) bad |= stepc_not_finite(v66);
                                run4_66.item[1] = stepc_bf16_bits(v71);
                                stepc_store_whole(b4 + (2ll * (long long)v55 + 160ll * (long long)v52), run4_66, v58);
                                if (v58) bad |= stepc_not_finite(v71);
                            }
                        }
                    }
                }
            }
            #pragma unroll
            for (long long i21 = 0; i21 < 32ll; i21++) {
                 {
                    const long long i22 = thread;
                    const float v72 = r0[i21 + 32];
                    r0[i21] = v72;
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
    unsigned *const b4 = (unsigned *)(stepc_dynamic + 0);
    unsigned *const b5 = (unsigned *)(stepc_dynamic + 32768);
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v13 = (int)200ll;
    const int v16 = (int)8ll;
    const int v21 = (int)20ll;
    const int v26 = (int)1ll;
    const int v43 = (int)32ll;
    const int v52 = (int)80ll;
    const float v60 = 2.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        stepc_warpgroup_wait<64, 0>(r0);
        stepc_copies_wait<0>();
        stepc_warpgroup_ready();
        __syncthreads();
        for (long long i1 = 0; i1 < 2ll; i1++) {
            const int v7 = (int)(i1);
            const int v8 = stepc_rem(v7, v6);
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = thread;
                    const int v9 = (int)(i3);
                    const int v10 = stepc_rem(v9, v6);
                    const int v11 = stepc_div(v9, v6);
                    const int v12 = (int)(64ll * i2 + (long long)v11 + 128ll * (long long)v4);
                    const bool v14 = v12 < v13;
                    stepc_copy(&b4[stepc_swizzled<64>(16ll * (long long)v11 + 4ll * (long long)v10) + 1024ll * i2 + 2048ll * (long long)v8], b0 + (32ll * i1 + 96ll * (long long)v12 + 8ll * (long long)v10), v14);
                }
            }
            #pragma unroll
            for (long long i4 = 0; i4 < 2ll; i4++) {
                 {
                    const long long i5 = 0;
                     {
                        const long long i6 = thread;
                        const int v17 = (int)(i6);
                        const int v18 = stepc_rem(v17, v16);
                        const int v19 = stepc_div(v17, v16);
                        const int v20 = (int)(8ll * i4 + (long long)v18 + 16ll * (long long)v3);
                        const bool v22 = v20 < v21;
                        stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v18 + 32ll * (long long)v19) + 1024ll * i4 + 2048ll * (long long)v8], b1 + (5120ll * i1 + 8ll * (long long)v20 + 160ll * (long long)v19), v22);
                    }
                }
            }
            stepc_copies_end();
        }
        for (long long i7 = 0; i7 < 3ll; i7++) {
            const int v24 = (int)(i7);
            const int v25 = stepc_rem(v24, v6);
            stepc_warpgroup_wait<64, 1>(r0);
            stepc_copies_wait<1>();
            stepc_warpgroup_ready();
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v25), b5 + (2048ll * (long long)v25));
            const bool v27 = v24 < v26;
            const int v28 = (int)(i7 + 2);
            const int v29 = (int)((long long)v28);
            const int v30 = stepc_rem(v29, v6);
            if (v27) {
                #pragma unroll
                for (long long i8 = 0; i8 < 2ll; i8++) {
                     {
                        const long long i9 = thread;
                        const int v31 = (int)(i9);
                        const int v32 = stepc_rem(v31, v6);
                        const int v33 = stepc_div(v31, v6);
                        const int v34 = (int)(64ll * i8 + (long long)v33 + 128ll * (long long)v4);
                        const bool v35 = v34 < v13;
                        stepc_copy(&b4[stepc_swizzled<64>(16ll * (long long)v33 + 4ll * (long long)v32) + 1024ll * i8 + 2048ll * (long long)v30], b0 + (96ll * (long long)v34 + 8ll * (long long)v32 + 32ll * (long long)v28), v35);
                    }
                }
                #pragma unroll
                for (long long i10 = 0; i10 < 2ll; i10++) {
                     {
                        const long long i11 = 0;
                         {
                            const long long i12 = thread;
                            const int v37 = (int)(i12);
                            const int v38 = stepc_rem(v37, v16);
                            const int v39 = stepc_div(v37, v16);
                            const int v40 = (int)(8ll * i10 + (long long)v38 + 16ll * (long long)v3);
                            const bool v41 = v40 < v21;
                            stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v38 + 32ll * (long long)v39) + 1024ll * i10 + 2048ll * (long long)v30], b1 + (8ll * (long long)v40 + 160ll * (long long)v39 + 5120ll * (long long)v28), v41);
                        }
                    }
                }
            }
            stepc_copies_end();
        }
        stepc_warpgroup_wait<64, 0>(r0);
        #pragma unroll 1
        for (long long i13 = 0; i13 < 2ll; i13++) {
             {
                const long long i14 = 0;
                #pragma unroll
                for (long long i15 = 0; i15 < 2ll; i15++) {
                    #pragma unroll
                    for (long long i16 = 0; i16 < 8ll; i16++) {
                         {
                            const long long i17 = 0;
                             {
                                const long long i18 = thread;
                                const int v44 = (int)(i18);
                                const int v45 = stepc_div(v44, v43);
                                const int v46 = stepc_div(v44, v6);
                                const int v47 = stepc_rem(v46, v16);
                                const int v48 = stepc_rem(v44, v6);
                                const int v49 = (int)(8ll * i15 + 16ll * (long long)v45 + (long long)v47 + 128ll * (long long)v4);
                                const bool v50 = v49 < v13;
                                const int v51 = (int)(32ll * i13 + 4ll * i16 + (long long)v48 + 64ll * (long long)v3);
                                const bool v53 = v51 < v52;
                                const bool v54 = v50 && v53;
                                const float v55 = r0[2ll * i15 + 4ll * i16];
                                const float v56 = stepc_bf16_round((float)v55);
                                const auto wide57 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v51)), v54);
                                const float v57 = stepc_bf16_value(stepc_half<0>(wide57.item[0]));
                                const float v58 = stepc_bf16_add(v56, v57);
                                const float v59 = stepc_bf16_round(tanhf(v58));
                                const float v61 = stepc_bf16_mul(v59, v60);
                                const float v62 = stepc_bf16_round(cosf(v61));
                                const float v63 = stepc_bf16_mul(v61, v62);
                                const float v64 = r0[2ll * i15 + 4ll * i16 + 1];
                                const float v65 = stepc_bf16_round((float)v64);
                                const float v66 = stepc_bf16_value(stepc_half<1>(wide57.item[0]));
                                const float v67 = stepc_bf16_add(v65, v66);
                                const float v68 = stepc_bf16_round(tanhf(v67));
                                const float v69 = stepc_bf16_mul(v68, v60);
                                const float v70 = stepc_bf16_round(cosf(v69));
                                const float v71 = stepc_bf16_mul(v69, v70);
                                stepc_few<unsigned short, 2> run3_63;
                                run3_63.item[0] = stepc_bf16_bits(v63);
                                run3_63.item[1] = stepc_bf16_bits(v71);
                                stepc_store_whole(b3 + (2ll * (long long)v51 + 160ll * (long long)v49), run3_63, v54);
                            }
                        }
                    }
                }
            }
            #pragma unroll
            for (long long i19 = 0; i19 < 32ll; i19++) {
                 {
                    const long long i20 = thread;
                    const float v72 = r0[i19 + 32];
                    r0[i19] = v72;
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) kernel_10(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *__restrict__ b3, long long lo, long long hi)
{
    stepc_escape(b3);
    unsigned *const b4 = (unsigned *)(stepc_dynamic + 0);
    unsigned *const b5 = (unsigned *)(stepc_dynamic + 32768);
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v13 = (int)200ll;
    const int v16 = (int)8ll;
    const int v21 = (int)20ll;
    const int v26 = (int)1ll;
    const int v43 = (int)32ll;
    const int v52 = (int)80ll;
    const float v60 = 2.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
        float r0[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) r0[i] = v5;
        stepc_warpgroup_wait<64, 0>(r0);
        stepc_copies_wait<0>();
        stepc_warpgroup_ready();
        __syncthreads();
        for (long long i1 = 0; i1 < 2ll; i1++) {
            const int v7 = (int)(i1);
            const int v8 = stepc_rem(v7, v6);
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = thread;
                    const int v9 = (int)(i3);
                    const int v10 = stepc_rem(v9, v6);
                    const int v11 = stepc_div(v9, v6);
                    const int v12 = (int)(64ll * i2 + (long long)v11 + 128ll * (long long)v4);
                    const bool v14 = v12 < v13;
                    stepc_copy(&b4[stepc_swizzled<64>(16ll * (long long)v11 + 4ll * (long long)v10) + 1024ll * i2 + 2048ll * (long long)v8], b0 + (32ll * i1 + 96ll * (long long)v12 + 8ll * (long long)v10), v14);
                }
            }
            #pragma unroll
            for (long long i4 = 0; i4 < 2ll; i4++) {
                 {
                    const long long i5 = 0;
                     {
                        const long long i6 = thread;
                        const int v17 = (int)(i6);
                        const int v18 = stepc_rem(v17, v16);
                        const int v19 = stepc_div(v17, v16);
                        const int v20 = (int)(8ll * i4 + (long long)v18 + 16ll * (long long)v3);
                        const bool v22 = v20 < v21;
                        stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v18 + 32ll * (long long)v19) + 1024ll * i4 + 2048ll * (long long)v8], b1 + (5120ll * i1 + 8ll * (long long)v20 + 160ll * (long long)v19), v22);
                    }
                }
            }
            stepc_copies_end();
        }
        for (long long i7 = 0; i7 < 3ll; i7++) {
            const int v24 = (int)(i7);
            const int v25 = stepc_rem(v24, v6);
            stepc_warpgroup_wait<64, 1>(r0);
            stepc_copies_wait<1>();
            stepc_warpgroup_ready();
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v25), b5 + (2048ll * (long long)v25));
            const bool v27 = v24 < v26;
            const int v28 = (int)(i7 + 2);
            const int v29 = (int)((long long)v28);
            const int v30 = stepc_rem(v29, v6);
            if (v27) {
                #pragma unroll
                for (long long i8 = 0; i8 < 2ll; i8++) {
                     {
                        const long long i9 = thread;
                        const int v31 = (int)(i9);
                        const int v32 = stepc_rem(v31, v6);
                        const int v33 = stepc_div(v31, v6);
                        const int v34 = (int)(64ll * i8 + (long long)v33 + 128ll * (long long)v4);
                        const bool v35 = v34 < v13;
                        stepc_copy(&b4[stepc_swizzled<64>(16ll * (long long)v33 + 4ll * (long long)v32) + 1024ll * i8 + 2048ll * (long long)v30], b0 + (96ll * (long long)v34 + 8ll * (long long)v32 + 32ll * (long long)v28), v35);
                    }
                }
                #pragma unroll
                for (long long i10 = 0; i10 < 2ll; i10++) {
                     {
                        const long long i11 = 0;
                         {
                            const long long i12 = thread;
                            const int v37 = (int)(i12);
                            const int v38 = stepc_rem(v37, v16);
                            const int v39 = stepc_div(v37, v16);
                            const int v40 = (int)(8ll * i10 + (long long)v38 + 16ll * (long long)v3);
                            const bool v41 = v40 < v21;
                            stepc_copy(&b5[stepc_swizzled<128>(4ll * (long long)v38 + 32ll * (long long)v39) + 1024ll * i10 + 2048ll * (long long)v30], b1 + (8ll * (long long)v40 + 160ll * (long long)v39 + 5120ll * (long long)v28), v41);
                        }
                    }
                }
            }
            stepc_copies_end();
        }
        stepc_warpgroup_wait<64, 0>(r0);
        #pragma unroll 1
        for (long long i13 = 0; i13 < 2ll; i13++) {
             {
                const long long i14 = 0;
                #pragma unroll
                for (long long i15 = 0; i15 < 2ll; i15++) {
                    #pragma unroll
                    for (long long i16 = 0; i16 < 8ll; i16++) {
                         {
                            const long long i17 = 0;
                             {
                                const long long i18 = thread;
                                const int v44 = (int)(i18);
                                const int v45 = stepc_div(v44, v43);
                                const int v46 = stepc_div(v44, v6);
                                const int v47 = stepc_rem(v46, v16);
                                const int v48 = stepc_rem(v44, v6);
                                const int v49 = (int)(8ll * i15 + 16ll * (long long)v45 + (long long)v47 + 128ll * (long long)v4);
                                const bool v50 = v49 < v13;
                                const int v51 = (int)(32ll * i13 + 4ll * i16 + (long long)v48 + 64ll * (long long)v3);
                                const bool v53 = v51 < v52;
                                const bool v54 = v50 && v53;
                                const float v55 = r0[2ll * i15 + 4ll * i16];
                                const float v56 = stepc_bf16_round((float)v55);
                                const auto wide57 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v51)), v54);
                                const float v57 = stepc_bf16_value(stepc_half<0>(wide57.item[0]));
                                const float v58 = stepc_bf16_add(v56, v57);
                                const float v59 = stepc_bf16_round(tanhf(v58));
                                const float v61 = stepc_bf16_mul(v59, v60);
                                const float v62 = r0[2ll * i15 + 4ll * i16 + 1];
                                const float v63 = stepc_bf16_round((float)v62);
                                const float v64 = stepc_bf16_value(stepc_half<1>(wide57.item[0]));
                                const float v65 = stepc_bf16_add(v63, v64);
                                const float v66 = stepc_bf16_round(tanhf(v65));
                                const float v67 = stepc_bf16_mul(v66, v60);
                                if (v54) b3[2ll * (long long)v51 + 160ll * (long long)v49] = stepc_bf16_bits(v61);
                                if (v54) b3[2ll * (long long)v51 + 160ll * (long long)v49 + 1] = stepc_bf16_bits(v67);
                            }
                        }
                    }
                }
            }
            #pragma unroll
            for (long long i19 = 0; i19 < 32ll; i19++) {
                 {
                    const long long i20 = thread;
                    const float v68 = r0[i19 + 32];
                    r0[i19] = v68;
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

