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
    const unsigned v18 = (unsigned)16ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v185 = (int)32ll;
    const int v194 = (int)160ll;
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
                const float v14 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9]) : (float)0;
                const float v15 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1]) : (float)0;
                const unsigned short v16 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1] : 0;
                const unsigned v17 = (unsigned)v16;
                const unsigned v19 = stepc_shl(v17, v18);
                const unsigned short v20 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9] : 0;
                const unsigned v21 = (unsigned)v20;
                const unsigned v22 = (unsigned)(v21 | v19);
                r1[4ll * i1] = v22;
                const float v23 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2]) : (float)0;
                const float v24 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3]) : (float)0;
                const unsigned short v25 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3] : 0;
                const unsigned v26 = (unsigned)v25;
                const unsigned v27 = stepc_shl(v26, v18);
                const unsigned short v28 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2] : 0;
                const unsigned v29 = (unsigned)v28;
                const unsigned v30 = (unsigned)(v29 | v27);
                r1[4ll * i1 + 1] = v30;
                const float v31 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4]) : (float)0;
                const float v32 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5]) : (float)0;
                const unsigned short v33 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5] : 0;
                const unsigned v34 = (unsigned)v33;
                const unsigned v35 = stepc_shl(v34, v18);
                const unsigned short v36 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4] : 0;
                const unsigned v37 = (unsigned)v36;
                const unsigned v38 = (unsigned)(v37 | v35);
                r1[4ll * i1 + 2] = v38;
                const float v39 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6]) : (float)0;
                const float v40 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7]) : (float)0;
                const unsigned short v41 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7] : 0;
                const unsigned v42 = (unsigned)v41;
                const unsigned v43 = stepc_shl(v42, v18);
                const unsigned short v44 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6] : 0;
                const unsigned v45 = (unsigned)v44;
                const unsigned v46 = (unsigned)(v45 | v43);
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
                    const auto wide54 = stepc_load_pairs<8>(b1 + (8ll * (long long)v51 + 160ll * (long long)v50), v53);
                    const float v54 = stepc_bf16_value(wide54[0]);
                    const float v55 = stepc_bf16_value(wide54[1]);
                    const unsigned short v56 = wide54[1];
                    const unsigned v57 = (unsigned)v56;
                    const unsigned v58 = stepc_shl(v57, v18);
                    const unsigned short v59 = wide54[0];
                    const unsigned v60 = (unsigned)v59;
                    const unsigned v61 = (unsigned)(v60 | v58);
                    r2[4ll * i3] = v61;
                    const float v62 = stepc_bf16_value(wide54[2]);
                    const float v63 = stepc_bf16_value(wide54[3]);
                    const unsigned short v64 = wide54[3];
                    const unsigned v65 = (unsigned)v64;
                    const unsigned v66 = stepc_shl(v65, v18);
                    const unsigned short v67 = wide54[2];
                    const unsigned v68 = (unsigned)v67;
                    const unsigned v69 = (unsigned)(v68 | v66);
                    r2[4ll * i3 + 1] = v69;
                    const float v70 = stepc_bf16_value(wide54[4]);
                    const float v71 = stepc_bf16_value(wide54[5]);
                    const unsigned short v72 = wide54[5];
                    const unsigned v73 = (unsigned)v72;
                    const unsigned v74 = stepc_shl(v73, v18);
                    const unsigned short v75 = wide54[4];
                    const unsigned v76 = (unsigned)v75;
                    const unsigned v77 = (unsigned)(v76 | v74);
                    r2[4ll * i3 + 2] = v77;
                    const float v78 = stepc_bf16_value(wide54[6]);
                    const float v79 = stepc_bf16_value(wide54[7]);
                    const unsigned short v80 = wide54[7];
                    const unsigned v81 = (unsigned)v80;
                    const unsigned v82 = stepc_shl(v81, v18);
                    const unsigned short v83 = wide54[6];
                    const unsigned v84 = (unsigned)v83;
                    const unsigned v85 = (unsigned)(v84 | v82);
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
                    const float v111 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107]) : (float)0;
                    const float v112 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1]) : (float)0;
                    const unsigned short v113 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1] : 0;
                    const unsigned v114 = (unsigned)v113;
                    const unsigned v115 = stepc_shl(v114, v18);
                    const unsigned short v116 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107] : 0;
                    const unsigned v117 = (unsigned)v116;
                    const unsigned v118 = (unsigned)(v117 | v115);
                    r1[4ll * i12] = v118;
                    const float v119 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2]) : (float)0;
                    const float v120 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3]) : (float)0;
                    const unsigned short v121 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3] : 0;
                    const unsigned v122 = (unsigned)v121;
                    const unsigned v123 = stepc_shl(v122, v18);
                    const unsigned short v124 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2] : 0;
                    const unsigned v125 = (unsigned)v124;
                    const unsigned v126 = (unsigned)(v125 | v123);
                    r1[4ll * i12 + 1] = v126;
                    const float v127 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4]) : (float)0;
                    const float v128 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5]) : (float)0;
                    const unsigned short v129 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5] : 0;
                    const unsigned v130 = (unsigned)v129;
                    const unsigned v131 = stepc_shl(v130, v18);
                    const unsigned short v132 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4] : 0;
                    const unsigned v133 = (unsigned)v132;
                    const unsigned v134 = (unsigned)(v133 | v131);
                    r1[4ll * i12 + 2] = v134;
                    const float v135 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6]) : (float)0;
                    const float v136 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7]) : (float)0;
                    const unsigned short v137 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7] : 0;
                    const unsigned v138 = (unsigned)v137;
                    const unsigned v139 = stepc_shl(v138, v18);
                    const unsigned short v140 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6] : 0;
                    const unsigned v141 = (unsigned)v140;
                    const unsigned v142 = (unsigned)(v141 | v139);
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
                        const auto wide152 = stepc_load_pairs<8>(b1 + (8ll * (long long)v146 + 160ll * (long long)v148), v151);
                        const float v152 = stepc_bf16_value(wide152[0]);
                        const float v153 = stepc_bf16_value(wide152[1]);
                        const unsigned short v154 = wide152[1];
                        const unsigned v155 = (unsigned)v154;
                        const unsigned v156 = stepc_shl(v155, v18);
                        const unsigned short v157 = wide152[0];
                        const unsigned v158 = (unsigned)v157;
                        const unsigned v159 = (unsigned)(v158 | v156);
                        r2[4ll * i14] = v159;
                        const float v160 = stepc_bf16_value(wide152[2]);
                        const float v161 = stepc_bf16_value(wide152[3]);
                        const unsigned short v162 = wide152[3];
                        const unsigned v163 = (unsigned)v162;
                        const unsigned v164 = stepc_shl(v163, v18);
                        const unsigned short v165 = wide152[2];
                        const unsigned v166 = (unsigned)v165;
                        const unsigned v167 = (unsigned)(v166 | v164);
                        r2[4ll * i14 + 1] = v167;
                        const float v168 = stepc_bf16_value(wide152[4]);
                        const float v169 = stepc_bf16_value(wide152[5]);
                        const unsigned short v170 = wide152[5];
                        const unsigned v171 = (unsigned)v170;
                        const unsigned v172 = stepc_shl(v171, v18);
                        const unsigned short v173 = wide152[4];
                        const unsigned v174 = (unsigned)v173;
                        const unsigned v175 = (unsigned)(v174 | v172);
                        r2[4ll * i14 + 2] = v175;
                        const float v176 = stepc_bf16_value(wide152[6]);
                        const float v177 = stepc_bf16_value(wide152[7]);
                        const unsigned short v178 = wide152[7];
                        const unsigned v179 = (unsigned)v178;
                        const unsigned v180 = stepc_shl(v179, v18);
                        const unsigned short v181 = wide152[6];
                        const unsigned v182 = (unsigned)v181;
                        const unsigned v183 = (unsigned)(v182 | v180);
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
                    #pragma unroll
                    for (long long i20 = 0; i20 < 2ll; i20++) {
                         {
                            const long long i21 = thread;
                            const float v184 = r0[2ll * i18 + 4ll * i19 + i20];
                            const int v186 = (int)(i21);
                            const int v187 = stepc_div(v186, v185);
                            const int v188 = stepc_div(v186, v7);
                            const int v189 = stepc_rem(v188, v47);
                            const int v190 = stepc_rem(v186, v7);
                            const int v191 = (int)(8ll * i18 + 16ll * (long long)v187 + (long long)v189 + 128ll * (long long)v4);
                            const bool v192 = v191 < v12;
                            const int v193 = (int)(8ll * i19 + i20 + 2ll * (long long)v190 + 128ll * (long long)v3);
                            const bool v195 = v193 < v194;
                            const bool v196 = v192 && v195;
                            const float v197 = stepc_bf16_round((float)v184);
                            const float v198 = v196 ? stepc_bf16_value(b2[(long long)v193]) : (float)0;
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
                            if (v196) b3[(long long)v193 + 160ll * (long long)v191] = stepc_bf16_bits(v204);
                            if (v196) b4[(long long)v193 + 160ll * (long long)v191] = stepc_bf16_bits(v216);
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
    const unsigned v14 = (unsigned)16ll;
    const int v47 = (int)20ll;
    const int v81 = (int)2ll;
    const int v104 = (int)200ll;
    const int v180 = (int)32ll;
    const int v183 = (int)4ll;
    const int v188 = (int)96ll;
    const int v191 = (int)160ll;
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
                    const float v10 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6]) : (float)0;
                    const float v11 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 1]) : (float)0;
                    const unsigned short v12 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 1] : 0;
                    const unsigned v13 = (unsigned)v12;
                    const unsigned v15 = stepc_shl(v13, v14);
                    const unsigned short v16 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6] : 0;
                    const unsigned v17 = (unsigned)v16;
                    const unsigned v18 = (unsigned)(v17 | v15);
                    r1[4ll * i1] = v18;
                    const float v19 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 2]) : (float)0;
                    const float v20 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 3]) : (float)0;
                    const unsigned short v21 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 3] : 0;
                    const unsigned v22 = (unsigned)v21;
                    const unsigned v23 = stepc_shl(v22, v14);
                    const unsigned short v24 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 2] : 0;
                    const unsigned v25 = (unsigned)v24;
                    const unsigned v26 = (unsigned)(v25 | v23);
                    r1[4ll * i1 + 1] = v26;
                    const float v27 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 4]) : (float)0;
                    const float v28 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 5]) : (float)0;
                    const unsigned short v29 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 5] : 0;
                    const unsigned v30 = (unsigned)v29;
                    const unsigned v31 = stepc_shl(v30, v14);
                    const unsigned short v32 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 4] : 0;
                    const unsigned v33 = (unsigned)v32;
                    const unsigned v34 = (unsigned)(v33 | v31);
                    r1[4ll * i1 + 2] = v34;
                    const float v35 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 6]) : (float)0;
                    const float v36 = v9 ? stepc_bf16_value(b0[8ll * (long long)v7 + 96ll * (long long)v6 + 7]) : (float)0;
                    const unsigned short v37 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 7] : 0;
                    const unsigned v38 = (unsigned)v37;
                    const unsigned v39 = stepc_shl(v38, v14);
                    const unsigned short v40 = v9 ? b0[8ll * (long long)v7 + 96ll * (long long)v6 + 6] : 0;
                    const unsigned v41 = (unsigned)v40;
                    const unsigned v42 = (unsigned)(v41 | v39);
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
                    const auto wide49 = stepc_load_pairs<8>(b3 + (8ll * (long long)v46 + 160ll * (long long)v45), v48);
                    const float v49 = stepc_bf16_value(wide49[0]);
                    const float v50 = stepc_bf16_value(wide49[1]);
                    const unsigned short v51 = wide49[1];
                    const unsigned v52 = (unsigned)v51;
                    const unsigned v53 = stepc_shl(v52, v14);
                    const unsigned short v54 = wide49[0];
                    const unsigned v55 = (unsigned)v54;
                    const unsigned v56 = (unsigned)(v55 | v53);
                    r2[4ll * i4] = v56;
                    const float v57 = stepc_bf16_value(wide49[2]);
                    const float v58 = stepc_bf16_value(wide49[3]);
                    const unsigned short v59 = wide49[3];
                    const unsigned v60 = (unsigned)v59;
                    const unsigned v61 = stepc_shl(v60, v14);
                    const unsigned short v62 = wide49[2];
                    const unsigned v63 = (unsigned)v62;
                    const unsigned v64 = (unsigned)(v63 | v61);
                    r2[4ll * i4 + 1] = v64;
                    const float v65 = stepc_bf16_value(wide49[4]);
                    const float v66 = stepc_bf16_value(wide49[5]);
                    const unsigned short v67 = wide49[5];
                    const unsigned v68 = (unsigned)v67;
                    const unsigned v69 = stepc_shl(v68, v14);
                    const unsigned short v70 = wide49[4];
                    const unsigned v71 = (unsigned)v70;
                    const unsigned v72 = (unsigned)(v71 | v69);
                    r2[4ll * i4 + 2] = v72;
                    const float v73 = stepc_bf16_value(wide49[6]);
                    const float v74 = stepc_bf16_value(wide49[7]);
                    const unsigned short v75 = wide49[7];
                    const unsigned v76 = (unsigned)v75;
                    const unsigned v77 = stepc_shl(v76, v14);
                    const unsigned short v78 = wide49[6];
                    const unsigned v79 = (unsigned)v78;
                    const unsigned v80 = (unsigned)(v79 | v77);
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
                        const float v107 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103]) : (float)0;
                        const float v108 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 1]) : (float)0;
                        const unsigned short v109 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 1] : 0;
                        const unsigned v110 = (unsigned)v109;
                        const unsigned v111 = stepc_shl(v110, v14);
                        const unsigned short v112 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103] : 0;
                        const unsigned v113 = (unsigned)v112;
                        const unsigned v114 = (unsigned)(v113 | v111);
                        r1[4ll * i14] = v114;
                        const float v115 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 2]) : (float)0;
                        const float v116 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 3]) : (float)0;
                        const unsigned short v117 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 3] : 0;
                        const unsigned v118 = (unsigned)v117;
                        const unsigned v119 = stepc_shl(v118, v14);
                        const unsigned short v120 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 2] : 0;
                        const unsigned v121 = (unsigned)v120;
                        const unsigned v122 = (unsigned)(v121 | v119);
                        r1[4ll * i14 + 1] = v122;
                        const float v123 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 4]) : (float)0;
                        const float v124 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 5]) : (float)0;
                        const unsigned short v125 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 5] : 0;
                        const unsigned v126 = (unsigned)v125;
                        const unsigned v127 = stepc_shl(v126, v14);
                        const unsigned short v128 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 4] : 0;
                        const unsigned v129 = (unsigned)v128;
                        const unsigned v130 = (unsigned)(v129 | v127);
                        r1[4ll * i14 + 2] = v130;
                        const float v131 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 6]) : (float)0;
                        const float v132 = v106 ? stepc_bf16_value(b0[8ll * (long long)v101 + 96ll * (long long)v103 + 7]) : (float)0;
                        const unsigned short v133 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 7] : 0;
                        const unsigned v134 = (unsigned)v133;
                        const unsigned v135 = stepc_shl(v134, v14);
                        const unsigned short v136 = v106 ? b0[8ll * (long long)v101 + 96ll * (long long)v103 + 6] : 0;
                        const unsigned v137 = (unsigned)v136;
                        const unsigned v138 = (unsigned)(v137 | v135);
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
                        const auto wide147 = stepc_load_pairs<8>(b3 + (8ll * (long long)v142 + 160ll * (long long)v144), v146);
                        const float v147 = stepc_bf16_value(wide147[0]);
                        const float v148 = stepc_bf16_value(wide147[1]);
                        const unsigned short v149 = wide147[1];
                        const unsigned v150 = (unsigned)v149;
                        const unsigned v151 = stepc_shl(v150, v14);
                        const unsigned short v152 = wide147[0];
                        const unsigned v153 = (unsigned)v152;
                        const unsigned v154 = (unsigned)(v153 | v151);
                        r2[4ll * i17] = v154;
                        const float v155 = stepc_bf16_value(wide147[2]);
                        const float v156 = stepc_bf16_value(wide147[3]);
                        const unsigned short v157 = wide147[3];
                        const unsigned v158 = (unsigned)v157;
                        const unsigned v159 = stepc_shl(v158, v14);
                        const unsigned short v160 = wide147[2];
                        const unsigned v161 = (unsigned)v160;
                        const unsigned v162 = (unsigned)(v161 | v159);
                        r2[4ll * i17 + 1] = v162;
                        const float v163 = stepc_bf16_value(wide147[4]);
                        const float v164 = stepc_bf16_value(wide147[5]);
                        const unsigned short v165 = wide147[5];
                        const unsigned v166 = (unsigned)v165;
                        const unsigned v167 = stepc_shl(v166, v14);
                        const unsigned short v168 = wide147[4];
                        const unsigned v169 = (unsigned)v168;
                        const unsigned v170 = (unsigned)(v169 | v167);
                        r2[4ll * i17 + 2] = v170;
                        const float v171 = stepc_bf16_value(wide147[6]);
                        const float v172 = stepc_bf16_value(wide147[7]);
                        const unsigned short v173 = wide147[7];
                        const unsigned v174 = (unsigned)v173;
                        const unsigned v175 = stepc_shl(v174, v14);
                        const unsigned short v176 = wide147[6];
                        const unsigned v177 = (unsigned)v176;
                        const unsigned v178 = (unsigned)(v177 | v175);
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
                    #pragma unroll
                    for (long long i23 = 0; i23 < 2ll; i23++) {
                         {
                            const long long i24 = thread;
                            const float v179 = r0[2ll * i21 + 4ll * i22 + i23];
                            const int v181 = (int)(i24);
                            const int v182 = stepc_div(v181, v180);
                            const int v184 = stepc_div(v181, v183);
                            const int v185 = stepc_rem(v184, v3);
                            const int v186 = stepc_rem(v181, v183);
                            const int v187 = (int)(8ll * i21 + 16ll * (long long)v182 + (long long)v185);
                            const bool v189 = v187 < v188;
                            const int v190 = (int)(128ll * i0 + 8ll * i22 + i23 + 2ll * (long long)v186);
                            const bool v192 = v190 < v191;
                            const bool v193 = v189 && v192;
                            const float v194 = stepc_bf16_round((float)v179);
                            const float v195 = v193 ? stepc_bf16_value(b1[(long long)v190 + 160ll * (long long)v187]) : (float)0;
                            const double v196 = v193 ? b2[0] : (double)0;
                            const double v197 = -v196;
                            const float v198 = stepc_bf16_round((float)v197);
                            const float v199 = stepc_bf16_round(v198 * v194);
                            const float v200 = stepc_bf16_round(v195 + v199);
                            if (v193) { b4[(long long)v190 + 160ll * (long long)v187] = stepc_bf16_bits(v200); bad |= stepc_not_finite(v200); }
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
    for (long long at = lo + ((long long)blockIdx.x * 256 + thread) * 8; at < hi; at += (long long)gridDim.x * 2048) {
        const long long i0 = at;
        const int count = hi - at < 8 ? (int)(hi - at) : 8;
        const bool whole = wide && count == 8;
        stepc_few<unsigned short, 8> out0;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const long long i0 = at + (k < count ? k : count - 1);
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
        stepc_store_few(b0 + (i0), out0, count, whole);
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
    const unsigned v18 = (unsigned)16ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v185 = (int)32ll;
    const int v194 = (int)160ll;
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
                const float v14 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9]) : (float)0;
                const float v15 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1]) : (float)0;
                const unsigned short v16 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1] : 0;
                const unsigned v17 = (unsigned)v16;
                const unsigned v19 = stepc_shl(v17, v18);
                const unsigned short v20 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9] : 0;
                const unsigned v21 = (unsigned)v20;
                const unsigned v22 = (unsigned)(v21 | v19);
                r1[4ll * i1] = v22;
                const float v23 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2]) : (float)0;
                const float v24 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3]) : (float)0;
                const unsigned short v25 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3] : 0;
                const unsigned v26 = (unsigned)v25;
                const unsigned v27 = stepc_shl(v26, v18);
                const unsigned short v28 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2] : 0;
                const unsigned v29 = (unsigned)v28;
                const unsigned v30 = (unsigned)(v29 | v27);
                r1[4ll * i1 + 1] = v30;
                const float v31 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4]) : (float)0;
                const float v32 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5]) : (float)0;
                const unsigned short v33 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5] : 0;
                const unsigned v34 = (unsigned)v33;
                const unsigned v35 = stepc_shl(v34, v18);
                const unsigned short v36 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4] : 0;
                const unsigned v37 = (unsigned)v36;
                const unsigned v38 = (unsigned)(v37 | v35);
                r1[4ll * i1 + 2] = v38;
                const float v39 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6]) : (float)0;
                const float v40 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7]) : (float)0;
                const unsigned short v41 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7] : 0;
                const unsigned v42 = (unsigned)v41;
                const unsigned v43 = stepc_shl(v42, v18);
                const unsigned short v44 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6] : 0;
                const unsigned v45 = (unsigned)v44;
                const unsigned v46 = (unsigned)(v45 | v43);
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
                    const auto wide54 = stepc_load_pairs<8>(b1 + (8ll * (long long)v51 + 160ll * (long long)v50), v53);
                    const float v54 = stepc_bf16_value(wide54[0]);
                    const float v55 = stepc_bf16_value(wide54[1]);
                    const unsigned short v56 = wide54[1];
                    const unsigned v57 = (unsigned)v56;
                    const unsigned v58 = stepc_shl(v57, v18);
                    const unsigned short v59 = wide54[0];
                    const unsigned v60 = (unsigned)v59;
                    const unsigned v61 = (unsigned)(v60 | v58);
                    r2[4ll * i3] = v61;
                    const float v62 = stepc_bf16_value(wide54[2]);
                    const float v63 = stepc_bf16_value(wide54[3]);
                    const unsigned short v64 = wide54[3];
                    const unsigned v65 = (unsigned)v64;
                    const unsigned v66 = stepc_shl(v65, v18);
                    const unsigned short v67 = wide54[2];
                    const unsigned v68 = (unsigned)v67;
                    const unsigned v69 = (unsigned)(v68 | v66);
                    r2[4ll * i3 + 1] = v69;
                    const float v70 = stepc_bf16_value(wide54[4]);
                    const float v71 = stepc_bf16_value(wide54[5]);
                    const unsigned short v72 = wide54[5];
                    const unsigned v73 = (unsigned)v72;
                    const unsigned v74 = stepc_shl(v73, v18);
                    const unsigned short v75 = wide54[4];
                    const unsigned v76 = (unsigned)v75;
                    const unsigned v77 = (unsigned)(v76 | v74);
                    r2[4ll * i3 + 2] = v77;
                    const float v78 = stepc_bf16_value(wide54[6]);
                    const float v79 = stepc_bf16_value(wide54[7]);
                    const unsigned short v80 = wide54[7];
                    const unsigned v81 = (unsigned)v80;
                    const unsigned v82 = stepc_shl(v81, v18);
                    const unsigned short v83 = wide54[6];
                    const unsigned v84 = (unsigned)v83;
                    const unsigned v85 = (unsigned)(v84 | v82);
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
                    const float v111 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107]) : (float)0;
                    const float v112 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1]) : (float)0;
                    const unsigned short v113 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1] : 0;
                    const unsigned v114 = (unsigned)v113;
                    const unsigned v115 = stepc_shl(v114, v18);
                    const unsigned short v116 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107] : 0;
                    const unsigned v117 = (unsigned)v116;
                    const unsigned v118 = (unsigned)(v117 | v115);
                    r1[4ll * i12] = v118;
                    const float v119 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2]) : (float)0;
                    const float v120 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3]) : (float)0;
                    const unsigned short v121 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3] : 0;
                    const unsigned v122 = (unsigned)v121;
                    const unsigned v123 = stepc_shl(v122, v18);
                    const unsigned short v124 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2] : 0;
                    const unsigned v125 = (unsigned)v124;
                    const unsigned v126 = (unsigned)(v125 | v123);
                    r1[4ll * i12 + 1] = v126;
                    const float v127 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4]) : (float)0;
                    const float v128 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5]) : (float)0;
                    const unsigned short v129 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5] : 0;
                    const unsigned v130 = (unsigned)v129;
                    const unsigned v131 = stepc_shl(v130, v18);
                    const unsigned short v132 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4] : 0;
                    const unsigned v133 = (unsigned)v132;
                    const unsigned v134 = (unsigned)(v133 | v131);
                    r1[4ll * i12 + 2] = v134;
                    const float v135 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6]) : (float)0;
                    const float v136 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7]) : (float)0;
                    const unsigned short v137 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7] : 0;
                    const unsigned v138 = (unsigned)v137;
                    const unsigned v139 = stepc_shl(v138, v18);
                    const unsigned short v140 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6] : 0;
                    const unsigned v141 = (unsigned)v140;
                    const unsigned v142 = (unsigned)(v141 | v139);
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
                        const auto wide152 = stepc_load_pairs<8>(b1 + (8ll * (long long)v146 + 160ll * (long long)v148), v151);
                        const float v152 = stepc_bf16_value(wide152[0]);
                        const float v153 = stepc_bf16_value(wide152[1]);
                        const unsigned short v154 = wide152[1];
                        const unsigned v155 = (unsigned)v154;
                        const unsigned v156 = stepc_shl(v155, v18);
                        const unsigned short v157 = wide152[0];
                        const unsigned v158 = (unsigned)v157;
                        const unsigned v159 = (unsigned)(v158 | v156);
                        r2[4ll * i14] = v159;
                        const float v160 = stepc_bf16_value(wide152[2]);
                        const float v161 = stepc_bf16_value(wide152[3]);
                        const unsigned short v162 = wide152[3];
                        const unsigned v163 = (unsigned)v162;
                        const unsigned v164 = stepc_shl(v163, v18);
                        const unsigned short v165 = wide152[2];
                        const unsigned v166 = (unsigned)v165;
                        const unsigned v167 = (unsigned)(v166 | v164);
                        r2[4ll * i14 + 1] = v167;
                        const float v168 = stepc_bf16_value(wide152[4]);
                        const float v169 = stepc_bf16_value(wide152[5]);
                        const unsigned short v170 = wide152[5];
                        const unsigned v171 = (unsigned)v170;
                        const unsigned v172 = stepc_shl(v171, v18);
                        const unsigned short v173 = wide152[4];
                        const unsigned v174 = (unsigned)v173;
                        const unsigned v175 = (unsigned)(v174 | v172);
                        r2[4ll * i14 + 2] = v175;
                        const float v176 = stepc_bf16_value(wide152[6]);
                        const float v177 = stepc_bf16_value(wide152[7]);
                        const unsigned short v178 = wide152[7];
                        const unsigned v179 = (unsigned)v178;
                        const unsigned v180 = stepc_shl(v179, v18);
                        const unsigned short v181 = wide152[6];
                        const unsigned v182 = (unsigned)v181;
                        const unsigned v183 = (unsigned)(v182 | v180);
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
                    #pragma unroll
                    for (long long i20 = 0; i20 < 2ll; i20++) {
                         {
                            const long long i21 = thread;
                            const float v184 = r0[2ll * i18 + 4ll * i19 + i20];
                            const int v186 = (int)(i21);
                            const int v187 = stepc_div(v186, v185);
                            const int v188 = stepc_div(v186, v7);
                            const int v189 = stepc_rem(v188, v47);
                            const int v190 = stepc_rem(v186, v7);
                            const int v191 = (int)(8ll * i18 + 16ll * (long long)v187 + (long long)v189 + 128ll * (long long)v4);
                            const bool v192 = v191 < v12;
                            const int v193 = (int)(8ll * i19 + i20 + 2ll * (long long)v190 + 128ll * (long long)v3);
                            const bool v195 = v193 < v194;
                            const bool v196 = v192 && v195;
                            const float v197 = stepc_bf16_round((float)v184);
                            const float v198 = v196 ? stepc_bf16_value(b2[(long long)v193]) : (float)0;
                            const float v199 = stepc_bf16_round(v197 + v198);
                            const float v200 = stepc_bf16_round(tanhf(v199));
                            const float v202 = stepc_bf16_round(v200 * v201);
                            const float v203 = stepc_bf16_round(cosf(v202));
                            const float v204 = stepc_bf16_round(v202 * v203);
                            if (v196) b3[(long long)v193 + 160ll * (long long)v191] = stepc_bf16_bits(v204);
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
    const unsigned v18 = (unsigned)16ll;
    const int v47 = (int)8ll;
    const int v52 = (int)20ll;
    const int v108 = (int)12ll;
    const int v149 = (int)96ll;
    const int v185 = (int)32ll;
    const int v194 = (int)160ll;
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
                const float v14 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9]) : (float)0;
                const float v15 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1]) : (float)0;
                const unsigned short v16 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 1] : 0;
                const unsigned v17 = (unsigned)v16;
                const unsigned v19 = stepc_shl(v17, v18);
                const unsigned short v20 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9] : 0;
                const unsigned v21 = (unsigned)v20;
                const unsigned v22 = (unsigned)(v21 | v19);
                r1[4ll * i1] = v22;
                const float v23 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2]) : (float)0;
                const float v24 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3]) : (float)0;
                const unsigned short v25 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 3] : 0;
                const unsigned v26 = (unsigned)v25;
                const unsigned v27 = stepc_shl(v26, v18);
                const unsigned short v28 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 2] : 0;
                const unsigned v29 = (unsigned)v28;
                const unsigned v30 = (unsigned)(v29 | v27);
                r1[4ll * i1 + 1] = v30;
                const float v31 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4]) : (float)0;
                const float v32 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5]) : (float)0;
                const unsigned short v33 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 5] : 0;
                const unsigned v34 = (unsigned)v33;
                const unsigned v35 = stepc_shl(v34, v18);
                const unsigned short v36 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 4] : 0;
                const unsigned v37 = (unsigned)v36;
                const unsigned v38 = (unsigned)(v37 | v35);
                r1[4ll * i1 + 2] = v38;
                const float v39 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6]) : (float)0;
                const float v40 = v13 ? stepc_bf16_value(b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7]) : (float)0;
                const unsigned short v41 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 7] : 0;
                const unsigned v42 = (unsigned)v41;
                const unsigned v43 = stepc_shl(v42, v18);
                const unsigned short v44 = v13 ? b0[96ll * (long long)v11 + 8ll * (long long)v9 + 6] : 0;
                const unsigned v45 = (unsigned)v44;
                const unsigned v46 = (unsigned)(v45 | v43);
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
                    const auto wide54 = stepc_load_pairs<8>(b1 + (8ll * (long long)v51 + 160ll * (long long)v50), v53);
                    const float v54 = stepc_bf16_value(wide54[0]);
                    const float v55 = stepc_bf16_value(wide54[1]);
                    const unsigned short v56 = wide54[1];
                    const unsigned v57 = (unsigned)v56;
                    const unsigned v58 = stepc_shl(v57, v18);
                    const unsigned short v59 = wide54[0];
                    const unsigned v60 = (unsigned)v59;
                    const unsigned v61 = (unsigned)(v60 | v58);
                    r2[4ll * i3] = v61;
                    const float v62 = stepc_bf16_value(wide54[2]);
                    const float v63 = stepc_bf16_value(wide54[3]);
                    const unsigned short v64 = wide54[3];
                    const unsigned v65 = (unsigned)v64;
                    const unsigned v66 = stepc_shl(v65, v18);
                    const unsigned short v67 = wide54[2];
                    const unsigned v68 = (unsigned)v67;
                    const unsigned v69 = (unsigned)(v68 | v66);
                    r2[4ll * i3 + 1] = v69;
                    const float v70 = stepc_bf16_value(wide54[4]);
                    const float v71 = stepc_bf16_value(wide54[5]);
                    const unsigned short v72 = wide54[5];
                    const unsigned v73 = (unsigned)v72;
                    const unsigned v74 = stepc_shl(v73, v18);
                    const unsigned short v75 = wide54[4];
                    const unsigned v76 = (unsigned)v75;
                    const unsigned v77 = (unsigned)(v76 | v74);
                    r2[4ll * i3 + 2] = v77;
                    const float v78 = stepc_bf16_value(wide54[6]);
                    const float v79 = stepc_bf16_value(wide54[7]);
                    const unsigned short v80 = wide54[7];
                    const unsigned v81 = (unsigned)v80;
                    const unsigned v82 = stepc_shl(v81, v18);
                    const unsigned short v83 = wide54[6];
                    const unsigned v84 = (unsigned)v83;
                    const unsigned v85 = (unsigned)(v84 | v82);
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
                    const float v111 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107]) : (float)0;
                    const float v112 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1]) : (float)0;
                    const unsigned short v113 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 1] : 0;
                    const unsigned v114 = (unsigned)v113;
                    const unsigned v115 = stepc_shl(v114, v18);
                    const unsigned short v116 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107] : 0;
                    const unsigned v117 = (unsigned)v116;
                    const unsigned v118 = (unsigned)(v117 | v115);
                    r1[4ll * i12] = v118;
                    const float v119 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2]) : (float)0;
                    const float v120 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3]) : (float)0;
                    const unsigned short v121 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 3] : 0;
                    const unsigned v122 = (unsigned)v121;
                    const unsigned v123 = stepc_shl(v122, v18);
                    const unsigned short v124 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 2] : 0;
                    const unsigned v125 = (unsigned)v124;
                    const unsigned v126 = (unsigned)(v125 | v123);
                    r1[4ll * i12 + 1] = v126;
                    const float v127 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4]) : (float)0;
                    const float v128 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5]) : (float)0;
                    const unsigned short v129 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 5] : 0;
                    const unsigned v130 = (unsigned)v129;
                    const unsigned v131 = stepc_shl(v130, v18);
                    const unsigned short v132 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 4] : 0;
                    const unsigned v133 = (unsigned)v132;
                    const unsigned v134 = (unsigned)(v133 | v131);
                    r1[4ll * i12 + 2] = v134;
                    const float v135 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6]) : (float)0;
                    const float v136 = v110 ? stepc_bf16_value(b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7]) : (float)0;
                    const unsigned short v137 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 7] : 0;
                    const unsigned v138 = (unsigned)v137;
                    const unsigned v139 = stepc_shl(v138, v18);
                    const unsigned short v140 = v110 ? b0[96ll * (long long)v105 + 8ll * (long long)v107 + 6] : 0;
                    const unsigned v141 = (unsigned)v140;
                    const unsigned v142 = (unsigned)(v141 | v139);
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
                        const auto wide152 = stepc_load_pairs<8>(b1 + (8ll * (long long)v146 + 160ll * (long long)v148), v151);
                        const float v152 = stepc_bf16_value(wide152[0]);
                        const float v153 = stepc_bf16_value(wide152[1]);
                        const unsigned short v154 = wide152[1];
                        const unsigned v155 = (unsigned)v154;
                        const unsigned v156 = stepc_shl(v155, v18);
                        const unsigned short v157 = wide152[0];
                        const unsigned v158 = (unsigned)v157;
                        const unsigned v159 = (unsigned)(v158 | v156);
                        r2[4ll * i14] = v159;
                        const float v160 = stepc_bf16_value(wide152[2]);
                        const float v161 = stepc_bf16_value(wide152[3]);
                        const unsigned short v162 = wide152[3];
                        const unsigned v163 = (unsigned)v162;
                        const unsigned v164 = stepc_shl(v163, v18);
                        const unsigned short v165 = wide152[2];
                        const unsigned v166 = (unsigned)v165;
                        const unsigned v167 = (unsigned)(v166 | v164);
                        r2[4ll * i14 + 1] = v167;
                        const float v168 = stepc_bf16_value(wide152[4]);
                        const float v169 = stepc_bf16_value(wide152[5]);
                        const unsigned short v170 = wide152[5];
                        const unsigned v171 = (unsigned)v170;
                        const unsigned v172 = stepc_shl(v171, v18);
                        const unsigned short v173 = wide152[4];
                        const unsigned v174 = (unsigned)v173;
                        const unsigned v175 = (unsigned)(v174 | v172);
                        r2[4ll * i14 + 2] = v175;
                        const float v176 = stepc_bf16_value(wide152[6]);
                        const float v177 = stepc_bf16_value(wide152[7]);
                        const unsigned short v178 = wide152[7];
                        const unsigned v179 = (unsigned)v178;
                        const unsigned v180 = stepc_shl(v179, v18);
                        const unsigned short v181 = wide152[6];
                        const unsigned v182 = (unsigned)v181;
                        const unsigned v183 = (unsigned)(v182 | v180);
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
                    #pragma unroll
                    for (long long i20 = 0; i20 < 2ll; i20++) {
                         {
                            const long long i21 = thread;
                            const float v184 = r0[2ll * i18 + 4ll * i19 + i20];
                            const int v186 = (int)(i21);
                            const int v187 = stepc_div(v186, v185);
                            const int v188 = stepc_div(v186, v7);
                            const int v189 = stepc_rem(v188, v47);
                            const int v190 = stepc_rem(v186, v7);
                            const int v191 = (int)(8ll * i18 + 16ll * (long long)v187 + (long long)v189 + 128ll * (long long)v4);
                            const bool v192 = v191 < v12;
                            const int v193 = (int)(8ll * i19 + i20 + 2ll * (long long)v190 + 128ll * (long long)v3);
                            const bool v195 = v193 < v194;
                            const bool v196 = v192 && v195;
                            const float v197 = stepc_bf16_round((float)v184);
                            const float v198 = v196 ? stepc_bf16_value(b2[(long long)v193]) : (float)0;
                            const float v199 = stepc_bf16_round(v197 + v198);
                            const float v200 = stepc_bf16_round(tanhf(v199));
                            const float v202 = stepc_bf16_round(v200 * v201);
                            if (v196) b3[(long long)v193 + 160ll * (long long)v191] = stepc_bf16_bits(v202);
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) move(const __grid_constant__ stepc_table<121> table)
{
    typedef stepc_few<unsigned, 4> unit;
    const unsigned long long first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    for (unsigned at = 1; at < 1 + 3 * table.word[0]; at += 3) {
        const bool clears = table.word[at + 2] >> 63;
        const unsigned long long bytes = table.word[at + 2] << 1 >> 1;
        const bool wide = (table.word[at] | table.word[at + 1]) % sizeof(unit) == 0;
        const unsigned long long units = wide ? bytes / sizeof(unit) : 0;
        char *const to = (char *)stepc_global(table.word[at]);
        char *const from = (char *)stepc_global(table.word[at + 1]);
        for (unsigned long long i = first; i < units; i += all) ((unit *)to)[i] = ((const unit *)from)[i];
        for (unsigned long long i = units * sizeof(unit) + first; i < bytes; i += all) {
            to[i] = from[i];
            if (clears) from[i] = 0;
        }
    }
}

