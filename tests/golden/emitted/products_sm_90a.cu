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
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v184 = (int)32ll;
    const int v193 = (int)80ll;
    const float v201 = 2.0f;
    const float v205 = 0.000031232834f;
    const float v212 = 1.0f;
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
                    b5[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87)] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b5[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b5[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b5[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 3] = v94;
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
                        b6[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87)] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b6[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b6[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b6[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b5 + (2048ll * (long long)v87), b6 + (2048ll * (long long)v87));
            #pragma unroll
            for (long long i12 = 0; i12 < 2ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v102 = (int)(i13);
                    const int v103 = stepc_rem(v102, v7);
                    const int v104 = stepc_div(v102, v7);
                    const int v105 = (int)(64ll * i12 + (long long)v104 + 128ll * (long long)v4);
                    const bool v106 = v105 < v12;
                    const int v107 = (int)(4ll * i6 + (long long)v103 + 4);
                    const bool v109 = v107 < v108;
                    const bool v110 = v106 && v109;
                    const auto wide111 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v105 + 8ll * (long long)v107)), v110);
                    const unsigned v118 = wide111.item[0];
                    r1[4ll * i12] = v118;
                    const unsigned v126 = wide111.item[1];
                    r1[4ll * i12 + 1] = v126;
                    const unsigned v134 = wide111.item[2];
                    r1[4ll * i12 + 2] = v134;
                    const unsigned v142 = wide111.item[3];
                    r1[4ll * i12 + 3] = v142;
                }
            }
            #pragma unroll
            for (long long i14 = 0; i14 < 2ll; i14++) {
                 {
                    const long long i15 = 0;
                     {
                        const long long i16 = thread;
                        const int v143 = (int)(i16);
                        const int v144 = stepc_rem(v143, v47);
                        const int v145 = stepc_div(v143, v47);
                        const int v146 = (int)(8ll * i14 + (long long)v144 + 16ll * (long long)v3);
                        const bool v147 = v146 < v52;
                        const int v148 = (int)(32ll * i6 + (long long)v145 + 32);
                        const bool v150 = v148 < v149;
                        const bool v151 = v147 && v150;
                        const auto wide152 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v146 + 160ll * (long long)v148)), v151);
                        const unsigned v159 = wide152.item[0];
                        r2[4ll * i14] = v159;
                        const unsigned v167 = wide152.item[1];
                        r2[4ll * i14 + 1] = v167;
                        const unsigned v175 = wide152.item[2];
                        r2[4ll * i14 + 2] = v175;
                        const unsigned v183 = wide152.item[3];
                        r2[4ll * i14 + 3] = v183;
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
                            const int v185 = (int)(i21);
                            const int v186 = stepc_div(v185, v184);
                            const int v187 = stepc_div(v185, v7);
                            const int v188 = stepc_rem(v187, v47);
                            const int v189 = stepc_rem(v185, v7);
                            const int v190 = (int)(8ll * i18 + 16ll * (long long)v186 + (long long)v188 + 128ll * (long long)v4);
                            const bool v191 = v190 < v12;
                            const int v192 = (int)(4ll * i19 + (long long)v189 + 64ll * (long long)v3);
                            const bool v194 = v192 < v193;
                            const bool v195 = v191 && v194;
                            const float v196 = r0[2ll * i18 + 4ll * i19];
                            const float v197 = stepc_bf16_round((float)v196);
                            const auto wide198 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v192)), v195);
                            const float v198 = stepc_bf16_value(stepc_half<0>(wide198.item[0]));
                            const float v199 = stepc_bf16_round(v197 + v198);
                            const float v200 = stepc_bf16_round(tanhf(v199));
                            const float v202 = stepc_bf16_round(v200 * v201);
                            const float v203 = stepc_bf16_round(cosf(v202));
                            const float v204 = stepc_bf16_round(v202 * v203);
                            const float v206 = stepc_bf16_round(v205 * v203);
                            const float v207 = stepc_bf16_round(v205 * v202);
                            const float v208 = stepc_bf16_round(sinf(v202));
                            const float v209 = stepc_bf16_round(v207 * v208);
                            const float v210 = stepc_bf16_round(v206 - v209);
                            const float v211 = stepc_bf16_round(v210 * v201);
                            const float v213 = stepc_bf16_round(v212 - v200);
                            const float v214 = stepc_bf16_round(v211 * v213);
                            const float v215 = stepc_bf16_round(v214 * v200);
                            const float v216 = stepc_bf16_round(v214 + v215);
                            const float v217 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v218 = stepc_bf16_round((float)v217);
                            const float v219 = stepc_bf16_value(stepc_half<1>(wide198.item[0]));
                            const float v220 = stepc_bf16_round(v218 + v219);
                            const float v221 = stepc_bf16_round(tanhf(v220));
                            const float v222 = stepc_bf16_round(v221 * v201);
                            const float v223 = stepc_bf16_round(cosf(v222));
                            const float v224 = stepc_bf16_round(v222 * v223);
                            const float v225 = stepc_bf16_round(v205 * v223);
                            const float v226 = stepc_bf16_round(v205 * v222);
                            const float v227 = stepc_bf16_round(sinf(v222));
                            const float v228 = stepc_bf16_round(v226 * v227);
                            const float v229 = stepc_bf16_round(v225 - v228);
                            const float v230 = stepc_bf16_round(v229 * v201);
                            const float v231 = stepc_bf16_round(v212 - v221);
                            const float v232 = stepc_bf16_round(v230 * v231);
                            const float v233 = stepc_bf16_round(v232 * v221);
                            const float v234 = stepc_bf16_round(v232 + v233);
                            stepc_few<unsigned short, 2> run3_204;
                            run3_204.item[0] = stepc_bf16_bits(v204);
                            stepc_few<unsigned short, 2> run4_216;
                            run4_216.item[0] = stepc_bf16_bits(v216);
                            run3_204.item[1] = stepc_bf16_bits(v224);
                            stepc_store_whole(b3 + (2ll * (long long)v192 + 160ll * (long long)v190), run3_204, v195);
                            run4_216.item[1] = stepc_bf16_bits(v234);
                            stepc_store_whole(b4 + (2ll * (long long)v192 + 160ll * (long long)v190), run4_216, v195);
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
        for (long long i1 = thread; i1 < 6400ll; i1 += 1024) {
            const float v2 = stepc_bf16_value(b0[6400ll * i0 + i1]);
            const float v3 = (float)v2;
            r0[0] = r0[0] + v3;
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
                        r0[0] = stepc_bf16_round(r0[0] + v13);
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

extern "C" __global__ void __launch_bounds__(128) kernel_4(const unsigned short *b0, const double *__restrict__ b1, const unsigned short *__restrict__ b2, unsigned short *b3, long long lo, long long hi, unsigned *flag)
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
                    r0[0] = stepc_bf16_round(r0[0] + v5);
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
                const float v13 = stepc_bf16_round(v12 * v8);
                const float v14 = stepc_bf16_round(v9 + v13);
                if (v7) { b3[128ll * i0 + i5] = stepc_bf16_bits(v14); bad |= stepc_not_finite(v14); }
            }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(256, 2) kernel_5(const unsigned short *__restrict__ b0, const unsigned short *b1, const double *__restrict__ b2, const unsigned short *__restrict__ b3, unsigned short *b4, long long lo, long long hi, unsigned *flag)
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
    const int v104 = (int)200ll;
    const int v179 = (int)32ll;
    const int v182 = (int)4ll;
    const int v187 = (int)96ll;
    const int v190 = (int)80ll;
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
                        b5[stepc_swizzled<128>(1024ll * i8 + 4ll * (long long)v85 + 32ll * (long long)v86 + 2048ll * (long long)v83)] = v87;
                        const unsigned v88 = r1[4ll * i8 + 1];
                        b5[stepc_swizzled<128>(1024ll * i8 + 4ll * (long long)v85 + 32ll * (long long)v86 + 2048ll * (long long)v83) + 1] = v88;
                        const unsigned v89 = r1[4ll * i8 + 2];
                        b5[stepc_swizzled<128>(1024ll * i8 + 4ll * (long long)v85 + 32ll * (long long)v86 + 2048ll * (long long)v83) + 2] = v89;
                        const unsigned v90 = r1[4ll * i8 + 3];
                        b5[stepc_swizzled<128>(1024ll * i8 + 4ll * (long long)v85 + 32ll * (long long)v86 + 2048ll * (long long)v83) + 3] = v90;
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
                        b6[stepc_swizzled<128>(1024ll * i11 + 4ll * (long long)v92 + 32ll * (long long)v93 + 2048ll * (long long)v83)] = v94;
                        const unsigned v95 = r2[4ll * i11 + 1];
                        b6[stepc_swizzled<128>(1024ll * i11 + 4ll * (long long)v92 + 32ll * (long long)v93 + 2048ll * (long long)v83) + 1] = v95;
                        const unsigned v96 = r2[4ll * i11 + 2];
                        b6[stepc_swizzled<128>(1024ll * i11 + 4ll * (long long)v92 + 32ll * (long long)v93 + 2048ll * (long long)v83) + 2] = v96;
                        const unsigned v97 = r2[4ll * i11 + 3];
                        b6[stepc_swizzled<128>(1024ll * i11 + 4ll * (long long)v92 + 32ll * (long long)v93 + 2048ll * (long long)v83) + 3] = v97;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, false, false>(r0, b5 + (2048ll * (long long)v83), b6 + (2048ll * (long long)v83));
            #pragma unroll
            for (long long i14 = 0; i14 < 2ll; i14++) {
                 {
                    const long long i15 = 0;
                     {
                        const long long i16 = thread;
                        const int v98 = (int)(i16);
                        const int v99 = stepc_rem(v98, v3);
                        const int v100 = stepc_div(v98, v3);
                        const int v101 = (int)(8ll * i14 + (long long)v99);
                        const bool v102 = v101 < v8;
                        const int v103 = (int)(32ll * i7 + (long long)v100 + 32);
                        const bool v105 = v103 < v104;
                        const bool v106 = v102 && v105;
                        const auto wide107 = stepc_load_whole<4>((const unsigned *)(b0 + (8ll * (long long)v101 + 96ll * (long long)v103)), v106);
                        const unsigned v114 = wide107.item[0];
                        r1[4ll * i14] = v114;
                        const unsigned v122 = wide107.item[1];
                        r1[4ll * i14 + 1] = v122;
                        const unsigned v130 = wide107.item[2];
                        r1[4ll * i14 + 2] = v130;
                        const unsigned v138 = wide107.item[3];
                        r1[4ll * i14 + 3] = v138;
                    }
                }
            }
            #pragma unroll
            for (long long i17 = 0; i17 < 2ll; i17++) {
                 {
                    const long long i18 = 0;
                     {
                        const long long i19 = thread;
                        const int v139 = (int)(i19);
                        const int v140 = stepc_rem(v139, v3);
                        const int v141 = stepc_div(v139, v3);
                        const int v142 = (int)(16ll * i0 + 8ll * i17 + (long long)v140);
                        const bool v143 = v142 < v47;
                        const int v144 = (int)(32ll * i7 + (long long)v141 + 32);
                        const bool v145 = v144 < v104;
                        const bool v146 = v143 && v145;
                        const auto wide147 = stepc_load_whole<4>((const unsigned *)(b3 + (8ll * (long long)v142 + 160ll * (long long)v144)), v146);
                        const unsigned v154 = wide147.item[0];
                        r2[4ll * i17] = v154;
                        const unsigned v162 = wide147.item[1];
                        r2[4ll * i17 + 1] = v162;
                        const unsigned v170 = wide147.item[2];
                        r2[4ll * i17 + 2] = v170;
                        const unsigned v178 = wide147.item[3];
                        r2[4ll * i17 + 3] = v178;
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
                            const int v180 = (int)(i24);
                            const int v181 = stepc_div(v180, v179);
                            const int v183 = stepc_div(v180, v182);
                            const int v184 = stepc_rem(v183, v3);
                            const int v185 = stepc_rem(v180, v182);
                            const int v186 = (int)(8ll * i21 + 16ll * (long long)v181 + (long long)v184);
                            const bool v188 = v186 < v187;
                            const int v189 = (int)(64ll * i0 + 4ll * i22 + (long long)v185);
                            const bool v191 = v189 < v190;
                            const bool v192 = v188 && v191;
                            const float v193 = r0[2ll * i21 + 4ll * i22];
                            const float v194 = stepc_bf16_round((float)v193);
                            const auto wide195 = stepc_load_whole<1>((const unsigned *)(b1 + (2ll * (long long)v189 + 160ll * (long long)v186)), v192);
                            const float v195 = stepc_bf16_value(stepc_half<0>(wide195.item[0]));
                            const double v196 = v192 ? b2[0] : (double)0;
                            const double v197 = -v196;
                            const float v198 = stepc_bf16_round((float)v197);
                            const float v199 = stepc_bf16_round(v198 * v194);
                            const float v200 = stepc_bf16_round(v195 + v199);
                            const float v201 = r0[2ll * i21 + 4ll * i22 + 1];
                            const float v202 = stepc_bf16_round((float)v201);
                            const float v203 = stepc_bf16_value(stepc_half<1>(wide195.item[0]));
                            const float v204 = stepc_bf16_round(v198 * v202);
                            const float v205 = stepc_bf16_round(v203 + v204);
                            stepc_few<unsigned short, 2> run4_200;
                            run4_200.item[0] = stepc_bf16_bits(v200);
                            if (v192) bad |= stepc_not_finite(v200);
                            run4_200.item[1] = stepc_bf16_bits(v205);
                            stepc_store_whole(b4 + (2ll * (long long)v189 + 160ll * (long long)v186), run4_200, v192);
                            if (v192) bad |= stepc_not_finite(v205);
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

extern "C" __global__ void __launch_bounds__(32) kernel_8(int *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = (int)0ll;
    if (thread == 0) b0[0] = v1;
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
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v184 = (int)32ll;
    const int v193 = (int)80ll;
    const float v201 = 2.0f;
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
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87)] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 3] = v94;
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
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87)] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v87), b5 + (2048ll * (long long)v87));
            #pragma unroll
            for (long long i12 = 0; i12 < 2ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v102 = (int)(i13);
                    const int v103 = stepc_rem(v102, v7);
                    const int v104 = stepc_div(v102, v7);
                    const int v105 = (int)(64ll * i12 + (long long)v104 + 128ll * (long long)v4);
                    const bool v106 = v105 < v12;
                    const int v107 = (int)(4ll * i6 + (long long)v103 + 4);
                    const bool v109 = v107 < v108;
                    const bool v110 = v106 && v109;
                    const auto wide111 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v105 + 8ll * (long long)v107)), v110);
                    const unsigned v118 = wide111.item[0];
                    r1[4ll * i12] = v118;
                    const unsigned v126 = wide111.item[1];
                    r1[4ll * i12 + 1] = v126;
                    const unsigned v134 = wide111.item[2];
                    r1[4ll * i12 + 2] = v134;
                    const unsigned v142 = wide111.item[3];
                    r1[4ll * i12 + 3] = v142;
                }
            }
            #pragma unroll
            for (long long i14 = 0; i14 < 2ll; i14++) {
                 {
                    const long long i15 = 0;
                     {
                        const long long i16 = thread;
                        const int v143 = (int)(i16);
                        const int v144 = stepc_rem(v143, v47);
                        const int v145 = stepc_div(v143, v47);
                        const int v146 = (int)(8ll * i14 + (long long)v144 + 16ll * (long long)v3);
                        const bool v147 = v146 < v52;
                        const int v148 = (int)(32ll * i6 + (long long)v145 + 32);
                        const bool v150 = v148 < v149;
                        const bool v151 = v147 && v150;
                        const auto wide152 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v146 + 160ll * (long long)v148)), v151);
                        const unsigned v159 = wide152.item[0];
                        r2[4ll * i14] = v159;
                        const unsigned v167 = wide152.item[1];
                        r2[4ll * i14 + 1] = v167;
                        const unsigned v175 = wide152.item[2];
                        r2[4ll * i14 + 2] = v175;
                        const unsigned v183 = wide152.item[3];
                        r2[4ll * i14 + 3] = v183;
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
                            const int v185 = (int)(i21);
                            const int v186 = stepc_div(v185, v184);
                            const int v187 = stepc_div(v185, v7);
                            const int v188 = stepc_rem(v187, v47);
                            const int v189 = stepc_rem(v185, v7);
                            const int v190 = (int)(8ll * i18 + 16ll * (long long)v186 + (long long)v188 + 128ll * (long long)v4);
                            const bool v191 = v190 < v12;
                            const int v192 = (int)(4ll * i19 + (long long)v189 + 64ll * (long long)v3);
                            const bool v194 = v192 < v193;
                            const bool v195 = v191 && v194;
                            const float v196 = r0[2ll * i18 + 4ll * i19];
                            const float v197 = stepc_bf16_round((float)v196);
                            const auto wide198 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v192)), v195);
                            const float v198 = stepc_bf16_value(stepc_half<0>(wide198.item[0]));
                            const float v199 = stepc_bf16_round(v197 + v198);
                            const float v200 = stepc_bf16_round(tanhf(v199));
                            const float v202 = stepc_bf16_round(v200 * v201);
                            const float v203 = stepc_bf16_round(cosf(v202));
                            const float v204 = stepc_bf16_round(v202 * v203);
                            const float v205 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v206 = stepc_bf16_round((float)v205);
                            const float v207 = stepc_bf16_value(stepc_half<1>(wide198.item[0]));
                            const float v208 = stepc_bf16_round(v206 + v207);
                            const float v209 = stepc_bf16_round(tanhf(v208));
                            const float v210 = stepc_bf16_round(v209 * v201);
                            const float v211 = stepc_bf16_round(cosf(v210));
                            const float v212 = stepc_bf16_round(v210 * v211);
                            stepc_few<unsigned short, 2> run3_204;
                            run3_204.item[0] = stepc_bf16_bits(v204);
                            run3_204.item[1] = stepc_bf16_bits(v212);
                            stepc_store_whole(b3 + (2ll * (long long)v192 + 160ll * (long long)v190), run3_204, v195);
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
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v184 = (int)32ll;
    const int v193 = (int)80ll;
    const float v201 = 2.0f;
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
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87)] = v91;
                    const unsigned v92 = r1[4ll * i7 + 1];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 1] = v92;
                    const unsigned v93 = r1[4ll * i7 + 2];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 2] = v93;
                    const unsigned v94 = r1[4ll * i7 + 3];
                    b4[stepc_swizzled<64>(1024ll * i7 + 16ll * (long long)v90 + 4ll * (long long)v89 + 2048ll * (long long)v87) + 3] = v94;
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
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87)] = v98;
                        const unsigned v99 = r2[4ll * i9 + 1];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 1] = v99;
                        const unsigned v100 = r2[4ll * i9 + 2];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 2] = v100;
                        const unsigned v101 = r2[4ll * i9 + 3];
                        b5[stepc_swizzled<128>(1024ll * i9 + 4ll * (long long)v96 + 32ll * (long long)v97 + 2048ll * (long long)v87) + 3] = v101;
                    }
                }
            }
            stepc_warpgroup_wait<64>(r0);
            __syncthreads();
            stepc_warpgroup_bf16<128, 32, true, false>(r0, b4 + (2048ll * (long long)v87), b5 + (2048ll * (long long)v87));
            #pragma unroll
            for (long long i12 = 0; i12 < 2ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v102 = (int)(i13);
                    const int v103 = stepc_rem(v102, v7);
                    const int v104 = stepc_div(v102, v7);
                    const int v105 = (int)(64ll * i12 + (long long)v104 + 128ll * (long long)v4);
                    const bool v106 = v105 < v12;
                    const int v107 = (int)(4ll * i6 + (long long)v103 + 4);
                    const bool v109 = v107 < v108;
                    const bool v110 = v106 && v109;
                    const auto wide111 = stepc_load_whole<4>((const unsigned *)(b0 + (96ll * (long long)v105 + 8ll * (long long)v107)), v110);
                    const unsigned v118 = wide111.item[0];
                    r1[4ll * i12] = v118;
                    const unsigned v126 = wide111.item[1];
                    r1[4ll * i12 + 1] = v126;
                    const unsigned v134 = wide111.item[2];
                    r1[4ll * i12 + 2] = v134;
                    const unsigned v142 = wide111.item[3];
                    r1[4ll * i12 + 3] = v142;
                }
            }
            #pragma unroll
            for (long long i14 = 0; i14 < 2ll; i14++) {
                 {
                    const long long i15 = 0;
                     {
                        const long long i16 = thread;
                        const int v143 = (int)(i16);
                        const int v144 = stepc_rem(v143, v47);
                        const int v145 = stepc_div(v143, v47);
                        const int v146 = (int)(8ll * i14 + (long long)v144 + 16ll * (long long)v3);
                        const bool v147 = v146 < v52;
                        const int v148 = (int)(32ll * i6 + (long long)v145 + 32);
                        const bool v150 = v148 < v149;
                        const bool v151 = v147 && v150;
                        const auto wide152 = stepc_load_whole<4>((const unsigned *)(b1 + (8ll * (long long)v146 + 160ll * (long long)v148)), v151);
                        const unsigned v159 = wide152.item[0];
                        r2[4ll * i14] = v159;
                        const unsigned v167 = wide152.item[1];
                        r2[4ll * i14 + 1] = v167;
                        const unsigned v175 = wide152.item[2];
                        r2[4ll * i14 + 2] = v175;
                        const unsigned v183 = wide152.item[3];
                        r2[4ll * i14 + 3] = v183;
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
                            const int v185 = (int)(i21);
                            const int v186 = stepc_div(v185, v184);
                            const int v187 = stepc_div(v185, v7);
                            const int v188 = stepc_rem(v187, v47);
                            const int v189 = stepc_rem(v185, v7);
                            const int v190 = (int)(8ll * i18 + 16ll * (long long)v186 + (long long)v188 + 128ll * (long long)v4);
                            const bool v191 = v190 < v12;
                            const int v192 = (int)(4ll * i19 + (long long)v189 + 64ll * (long long)v3);
                            const bool v194 = v192 < v193;
                            const bool v195 = v191 && v194;
                            const float v196 = r0[2ll * i18 + 4ll * i19];
                            const float v197 = stepc_bf16_round((float)v196);
                            const auto wide198 = stepc_load_whole<1>((const unsigned *)(b2 + (2ll * (long long)v192)), v195);
                            const float v198 = stepc_bf16_value(stepc_half<0>(wide198.item[0]));
                            const float v199 = stepc_bf16_round(v197 + v198);
                            const float v200 = stepc_bf16_round(tanhf(v199));
                            const float v202 = stepc_bf16_round(v200 * v201);
                            const float v203 = r0[2ll * i18 + 4ll * i19 + 1];
                            const float v204 = stepc_bf16_round((float)v203);
                            const float v205 = stepc_bf16_value(stepc_half<1>(wide198.item[0]));
                            const float v206 = stepc_bf16_round(v204 + v205);
                            const float v207 = stepc_bf16_round(tanhf(v206));
                            const float v208 = stepc_bf16_round(v207 * v201);
                            if (v195) b3[2ll * (long long)v192 + 160ll * (long long)v190] = stepc_bf16_bits(v202);
                            if (v195) b3[2ll * (long long)v192 + 160ll * (long long)v190 + 1] = stepc_bf16_bits(v208);
                        }
                    }
                }
            }
        }
    }
}

