/* A host in C, in a locale whose numbers have a comma: arrays of every dtype of the interface, dense, strided forwards
 * and backwards, repeated and at odd addresses, go in and come out element by element and nothing beside them is
 * touched. Numbers of the environment have a point all the same. arrays DTYPES.SO (dtypes.py makes it) */
#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepc/step.h"

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), exit(1)))
#define COUNT(table) (sizeof table / sizeof *table)

enum { ROWS = 4, COLUMNS = 3, FORMS = 13, ROOM = 1024, FREE = 0xa5 };

static const struct {
    const char *name;
    uint32_t dtype, out; /* out: what JAX without x64 computes with */
    size_t bytes, out_bytes;
} kinds[FORMS] = {{"bool", STEP_BOOL, STEP_BOOL, 1, 1},     {"uint8", STEP_U8, STEP_U8, 1, 1},
                  {"int8", STEP_I8, STEP_I8, 1, 1},         {"uint16", STEP_U16, STEP_U16, 2, 2},
                  {"int16", STEP_I16, STEP_I16, 2, 2},      {"uint32", STEP_U32, STEP_U32, 4, 4},
                  {"int32", STEP_I32, STEP_I32, 4, 4},      {"uint64", STEP_U64, STEP_U32, 8, 4},
                  {"int64", STEP_I64, STEP_I32, 8, 4},      {"float16", STEP_F16, STEP_F16, 2, 2},
                  {"bfloat16", STEP_BF16, STEP_BF16, 2, 2}, {"float32", STEP_F32, STEP_F32, 4, 4},
                  {"float64", STEP_F64, STEP_F32, 8, 4}};

/* In elements; `once`: no element lies on another one, so it can be written to. */
static const struct {
    int64_t first, strides[2];
    size_t odd; /* bytes beside an aligned address */
    int once;
} forms[] = {{0, {3, 1}, 0, 1},   {0, {1, 4}, 0, 1}, {11, {-3, -1}, 0, 1}, {2, {3, -1}, 0, 1},
             {21, {-7, 2}, 0, 1}, {9, {9, 3}, 0, 1}, {0, {3, 1}, 1, 1},    {33, {-9, -3}, 3, 1},
             {0, {0, 1}, 0, 0},   {5, {0, 0}, 0, 0}, {3, {-1, 0}, 0, 0},   {0, {2, 1}, 0, 0}};

/* The element of a form that counts as number i in C order. */
static size_t place(size_t form, size_t i)
{
    return (size_t)(forms[form].first + (int64_t)(i / COLUMNS) * forms[form].strides[0] +
                    (int64_t)(i % COLUMNS) * forms[form].strides[1]);
}

/* Element i: whole numbers, whose bytes every dtype has in its own way. */
static void put(char *to, uint32_t dtype, int value)
{
    static const uint16_t f16[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400, 0x4500,
                                   0x4600, 0x4700, 0x4800, 0x4880, 0x4900, 0x4980};
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
        char bytes[8];
    } v = {0};
    uint32_t size = 0;
    float f = (float)value;
    switch (dtype) {
    case STEP_BOOL: v.u8 = value % 2, size = 1; break;
    case STEP_U8:
    case STEP_I8: v.u8 = (uint8_t)value, size = 1; break;
    case STEP_U16:
    case STEP_I16: v.u16 = (uint16_t)value, size = 2; break;
    case STEP_U32:
    case STEP_I32: v.u32 = (uint32_t)value, size = 4; break;
    case STEP_U64:
    case STEP_I64: v.u64 = (uint64_t)value, size = 8; break;
    case STEP_F16: v.u16 = f16[value], size = 2; break;
    case STEP_BF16: memcpy(&v.u32, &f, 4), v.u16 = (uint16_t)(v.u32 >> 16), size = 2; break;
    case STEP_F32: v.f32 = f, size = 4; break;
    case STEP_F64: v.f64 = value, size = 8; break;
    default: CHECK(!"a dtype of the table");
    }
    memcpy(to, v.bytes, size);
}

static const struct step_api *s;
static struct step_instance *t;
static char dense[FORMS][ROOM];

/* Every input but one in C order; the one in the form. */
static step_status infer(size_t kind, const struct step_array *in, struct step_array *out)
{
    static const int64_t shape[] = {ROWS, COLUMNS};
    struct step_array arrays[2 * FORMS];
    static char names[2 * FORMS][32];
    for (size_t i = 0; i < FORMS; i++) {
        struct step_array row = {
            .size = sizeof row, .data = dense[i], .dtype = kinds[i].dtype, .rank = 2, .shape = shape};
        snprintf(names[2 * i], sizeof *names, "%s_row", kinds[i].name);
        snprintf(names[2 * i + 1], sizeof *names, "%s_one", kinds[i].name);
        arrays[2 * i] = i == kind ? *in : row;
        arrays[2 * i].name = names[2 * i];
        row.rank = 0, row.shape = NULL, row.name = names[2 * i + 1];
        arrays[2 * i + 1] = row;
    }
    struct step_batch batch = {.size = sizeof batch, .inputs = arrays, .input_count = 2 * FORMS};
    return s->infer(t, &batch, "params", out, 1);
}

/* A tensor of `bytes` per element lies in this form: element i is number value(i) mod 12, all else is free. */
static void holds(const char *room, size_t form, uint32_t dtype, size_t bytes, const size_t *values)
{
    static char want[ROOM];
    memset(want, FREE, ROOM);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        put(want + forms[form].odd + place(form, i) * bytes, dtype, (int)values[i]);
    CHECK(memcmp(room, want, ROOM) == 0);
}

static void play(size_t kind, size_t from, size_t to)
{
    static _Alignas(16) char in[ROOM], out[ROOM];
    static const int64_t shape[] = {ROWS, COLUMNS};
    char name[32], param[32];
    size_t values[ROWS * COLUMNS], bytes = kinds[kind].bytes;
    memset(in, FREE, ROOM), memset(out, FREE, ROOM);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        put(in + forms[from].odd + place(from, i) * bytes, kinds[kind].dtype, (int)i);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) /* of elements that lie on each other the last one holds */
        for (size_t k = 0; k < ROWS * COLUMNS; k++)
            if (place(from, k) == place(from, i)) values[i] = k;
    struct step_array a = {.size = sizeof a,
                           .name = name,
                           .data = in + forms[from].odd + (size_t)forms[from].first * bytes,
                           .dtype = kinds[kind].dtype,
                           .rank = 2,
                           .shape = shape,
                           .strides = forms[from].strides};
    struct step_array b = a;
    snprintf(name, sizeof name, "model.%s_row", kinds[kind].name);
    snprintf(param, sizeof param, "%s_row_w", kinds[kind].name);
    b.data = out + forms[to].odd + (size_t)forms[to].first * kinds[kind].out_bytes;
    b.dtype = kinds[kind].out, b.strides = forms[to].strides;
    CHECK(infer(kind, &a, &b) == STEP_OK);
    holds(out, to, kinds[kind].out, kinds[kind].out_bytes, values);
    struct step_tensor about = {.size = sizeof about};
    if (s->tensor_find(t, param, &about) != STEP_OK) return;
    a.name = b.name = param;
    memset(out, FREE, ROOM);
    CHECK(s->write(t, &a) == STEP_OK && s->read(t, &b) == STEP_OK);
    holds(out, to, kinds[kind].out, kinds[kind].out_bytes, values);
}

/* What an array may not be; the text names what is wrong. */
static void refused(void)
{
    static const int64_t shape[] = {ROWS, COLUMNS}, wide[] = {COLUMNS, ROWS}, wild[] = {INT64_MAX, 1},
                         back[] = {1, INT64_MIN}, none[] = {-4, 3};
    static float room[ROWS * COLUMNS];
    const struct step_array good = {
        .size = sizeof good, .name = "float32_row_w", .data = room, .dtype = STEP_F32, .rank = 2, .shape = shape};
    struct {
        struct step_array a;
        step_status status;
        const char *text;
    } rows[16];
    size_t n = 0;
#define ROW(change, wanted, words) rows[n].a = good, rows[n].a.change, rows[n].status = wanted, rows[n++].text = words
    ROW(dtype = STEP_F64, STEP_ESHAPE, "found float64[4, 3]");
    ROW(dtype = STEP_F8E4M3, STEP_ESHAPE, "found f8e4m3[4, 3]");
    ROW(dtype = STEP_F8E5M2, STEP_ESHAPE, "found f8e5m2[4, 3]");
    ROW(dtype = 0, STEP_ESHAPE, "unknown dtype");
    ROW(dtype = 16, STEP_ESHAPE, "unknown dtype");
    ROW(dtype = UINT32_MAX, STEP_ESHAPE, "unknown dtype");
    ROW(rank = 1, STEP_ESHAPE, "found float32[4]");
    ROW(rank = -1, STEP_ESHAPE, "rank");
    ROW(rank = 1000000, STEP_ESHAPE, "rank");
    ROW(shape = wide, STEP_ESHAPE, "found float32[3, 4]");
    ROW(shape = none, STEP_ESHAPE, "found float32[-4, 3]");
    ROW(shape = NULL, STEP_ESHAPE, "without a shape");
    ROW(data = NULL, STEP_EINVAL, "NULL");
    ROW(strides = wild, STEP_EINVAL, "strides");
    ROW(strides = back, STEP_EINVAL, "strides");
    ROW(device_type = 2, STEP_EUNSUPPORTED, "device type 2");
    for (size_t i = 0; i < n; i++) {
        CHECK(s->write(t, &rows[i].a) == rows[i].status && strstr(s->last_error(t), rows[i].text));
        CHECK(s->read(t, &rows[i].a) == rows[i].status && strstr(s->last_error(t), rows[i].text));
        CHECK(infer(11, &rows[i].a,
                    (struct step_array[]){{.size = sizeof good,
                                           .name = "model.float32_row",
                                           .data = room,
                                           .dtype = STEP_F32,
                                           .rank = 2,
                                           .shape = shape}}) == rows[i].status);
        CHECK(strstr(s->last_error(t), rows[i].text));
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!setlocale(LC_NUMERIC, "comma")) return fputs("there is no locale \"comma\" in LOCPATH\n", stderr), 1;
    CHECK(strtod("0,5", NULL) > 0);
    void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!so) return fprintf(stderr, "%s\n", dlerror()), 1;
    step_query_fn *query;
    *(void **)&query = dlsym(so, "step_query");
    s = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    struct step_options options = {.size = sizeof options, .threads = 1};
    setenv("STEPC_TIMEOUT", "0,5", 1);
    CHECK(s->create(&options, &t) == STEP_EINVAL && strstr(s->last_error(NULL), "STEPC_TIMEOUT=0,5"));
    setenv("STEPC_TIMEOUT", "0.5", 1);
    setenv("STEPC_MAX_MEMORY", "0.25GiB", 1);
    CHECK(s->create(&options, &t) == STEP_OK && s->init(t) == STEP_OK);
    for (size_t i = 0; i < FORMS; i++)
        for (size_t k = 0; k < ROWS * COLUMNS; k++) put(dense[i] + k * kinds[i].bytes, kinds[i].dtype, 1);
    size_t played = 0;
    for (size_t kind = 0; kind < FORMS; kind++)
        for (size_t from = 0; from < COUNT(forms); from++)
            for (size_t to = 0; to < COUNT(forms); to++)
                if (forms[to].once) play(kind, from, to), played++;
    refused();
    s->destroy(t);
    s->destroy(t);
    CHECK(strcmp(s->last_error(NULL), "STEP_EINVAL: destroy: no such instance") == 0);
    printf("arrays in C: %u ways in and out, all checks passed\n", (unsigned)played);
    return 0;
}
