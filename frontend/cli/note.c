/* The manifest inside an object: the ELF note .note.stepc, read from the file's bytes. The object is not loaded, and
 * nothing in the file is trusted: every offset is checked against its length, even where the checksum is right. */
#include "frontend/cli/cli.h"

#include <elf.h>
#include <stepc/step_open.h>
#include <string.h>

static bool within(size_t length, uint64_t offset, uint64_t size)
{
    return offset <= length && size <= length - offset;
}

/* The note's text in a section of notes; false: none of ours. */
static bool find_note(const char *section, uint64_t size, const char **text, size_t *length)
{
    uint64_t at = 0;
    while (within(size, at, sizeof(Elf64_Nhdr))) {
        Elf64_Nhdr note;
        memcpy(&note, section + at, sizeof note);
        uint64_t name = at + sizeof note, data = name + ((uint64_t)note.n_namesz + 3) / 4 * 4;
        if (!within(size, name, note.n_namesz) || !within(size, data, note.n_descsz)) return false;
        if (note.n_type == 1 && note.n_namesz == sizeof "stepc" &&
            memcmp(section + name, "stepc", sizeof "stepc") == 0) {
            *text = section + data;
            *length = note.n_descsz;
            while (*length && (*text)[*length - 1] == 0) --*length; /* terminated and padded */
            return true;
        }
        at = data + ((uint64_t)note.n_descsz + 3) / 4 * 4;
    }
    return false;
}

int cli_read_note(struct cli *cli, const char *path, const char *file, size_t length, const char **report,
                  size_t *report_length)
{
    *report = NULL;
    if (length < SELFMAG || memcmp(file, ELFMAG, SELFMAG) != 0) return 0;
    const char *why;
    if (step_object_check(file, length, &why)) return cli_failed(cli, EXIT_WRONG, "%s: %s", path, why);
    Elf64_Ehdr head;
    bool good = length >= sizeof head;
    if (good) memcpy(&head, file, sizeof head);
    good = good && head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_ident[EI_DATA] == ELFDATA2LSB &&
           head.e_shentsize == sizeof(Elf64_Shdr) &&
           within(length, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr));
    if (!good) return cli_failed(cli, EXIT_WRONG, "%s is a damaged ELF file, or one of another kind of machine", path);
    for (uint32_t i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, file + head.e_shoff + (uint64_t)i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOTE || !within(length, section.sh_offset, section.sh_size)) continue;
        if (find_note(file + section.sh_offset, section.sh_size, report, report_length)) return 0;
    }
    return cli_failed(cli, EXIT_WRONG, "%s was not made by stepc: it has no note \"stepc\"", path);
}
