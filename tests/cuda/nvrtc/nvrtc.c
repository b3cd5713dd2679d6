/* A stand-in for NVRTC (libnvrtc.so.13), which says what it is asked for: for compute_80 it gives PTX with an entry for
 * each kernel of a text, for sm_80 an ELF file's first bytes and the text itself.
 *
 * STAND_IN_NVRTC_CALLS: a file to which each compilation adds a line, the architecture and "text" or "inline" (PTX);
 * STAND_IN_NVRTC_PTX=data: the first entry reads what is declared outside; =function: there is a function beside them;
 * STAND_IN_NVRTC_REFUSES=1: texts with inline PTX have errors. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6 };
struct program {
    char *text, *code;
    size_t size;
};

API int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, SUCCESS; }
API const char *nvrtcGetErrorString(int status) { return status ? "the stand-in's error" : "none"; }

API int nvrtcCreateProgram(struct program **to, const char *text, const char *name, int headers,
                           const char *const *contents, const char *const *names)
{
    (void)name, (void)headers, (void)contents, (void)names;
    struct program *p = *to = calloc(1, sizeof *p);
    if (p) p->text = strdup(text);
    return p && p->text ? SUCCESS : OUT_OF_MEMORY;
}

API int nvrtcDestroyProgram(struct program **p)
{
    free((*p)->text);
    free((*p)->code);
    free(*p);
    return SUCCESS;
}

static void print_ptx(FILE *out, const char *text, const char *number, const char *form)
{
    static const char kernel[] = "extern \"C\" __global__ ";
    fprintf(out, "//\n// The stand-in's\n//\n\n.version 9.0\n.target sm_%s\n.address_size 64\n\n", number);
    if (strcmp(form, "data") == 0) fprintf(out, ".global .align 4 .b8 data_outside[4] = {1, 2, 3, 4};\n");
    if (strcmp(form, "function") == 0) fprintf(out, ".func outside(\n)\n{\n\tret;\n}\n");
    for (bool first = true; (text = strstr(text, kernel)); first = false) {
        const char *name = strstr(text, ") ") + 2;
        fprintf(out, "\t// .globl\n.visible .entry %.*s(\n)\n{\n", (int)strcspn(name, "("), name);
        if (first && strcmp(form, "data") == 0) fprintf(out, "\tmov.u64 %%rd1, data_outside;\n");
        fprintf(out, "\tret;\n}\n\n");
        text = name;
    }
}

API int nvrtcCompileProgram(struct program *p, int count, const char *const *options)
{
    static const char option[] = "--gpu-architecture=";
    const char *calls = getenv("STAND_IN_NVRTC_CALLS"), *form = getenv("STAND_IN_NVRTC_PTX"), *arch = "";
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], option, strlen(option)) == 0) arch = options[i] + strlen(option);
    bool inlined = strstr(p->text, "asm(R\"ptx({") != NULL, ptx = strncmp(arch, "compute_", 8) == 0;
    FILE *file = calls ? fopen(calls, "a") : NULL, *out = open_memstream(&p->code, &p->size);
    if (file) fprintf(file, "%s %s\n", arch, inlined ? "inline" : "text"), fclose(file);
    if (!out) return OUT_OF_MEMORY;
    if (ptx) print_ptx(out, p->text, arch + 8, form ? form : "");
    else fprintf(out, "\177ELF%s", p->text);
    fputc(0, out);
    fclose(out);
    return inlined && getenv("STAND_IN_NVRTC_REFUSES") ? COMPILATION : SUCCESS;
}

static int size_of(const struct program *p, size_t *size) { return *size = p->size, SUCCESS; }
static int copy(const struct program *p, char *to) { return memcpy(to, p->code, p->size), SUCCESS; }
API int nvrtcGetCUBINSize(struct program *p, size_t *size) { return size_of(p, size); }
API int nvrtcGetCUBIN(struct program *p, char *to) { return copy(p, to); }
API int nvrtcGetPTXSize(struct program *p, size_t *size) { return size_of(p, size); }
API int nvrtcGetPTX(struct program *p, char *to) { return copy(p, to); }
API int nvrtcGetProgramLogSize(struct program *p, size_t *size) { return size_of(p, size); }
API int nvrtcGetProgramLog(struct program *p, char *to) { return copy(p, to); }
