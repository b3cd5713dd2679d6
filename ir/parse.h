/* Private to ir/parse*.c: the reader's state, and the parts of the text form that stand in many places. After the first
 * error every token is the end, so loops end by themselves. */
#ifndef IR_PARSE_H
#define IR_PARSE_H
#include "ir/plan.h"
#include "ir/text.h"

enum parse_token { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_VALUE, TOKEN_SIGN, TOKEN_BAD };

struct parse_state {
    const char *text;
    size_t length, at;
    enum parse_token token;
    uint32_t offset, size; /* of the token */
    const char *word;      /* WORD, NUMBER, STRING (unescaped), VALUE (digits), SIGN: terminated */
    struct arena *scratch;
    struct diags *diags;
    bool failed;
    struct ir_module *m;
    struct ir_func *f;
    struct map values;           /* numbers in the text -> values of f */
    VEC(struct map) func_values; /* those of all functions read so far */
    VEC(struct plan_span {
        struct plan_place place;
        struct diag_span span;
    })
    plan_places;
    VEC(struct node_place {
        struct ir_func *f;
        ir_value value;
        const char *body;
        struct diag_span span;
    })
    nodes;
};

void parse_error_at(struct parse_state *, struct diag_span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct diag_span parse_here(const struct parse_state *); /* the token */
const char *parse_found(const struct parse_state *);     /* its text, for messages */
void parse_next(struct parse_state *);
bool parse_is_sign(const struct parse_state *, char);
bool parse_is_word(const struct parse_state *, const char *word);
/* take: steps over it if it is there; need: records an error if it is not. */
bool parse_take_sign(struct parse_state *, char);
bool parse_take_word(struct parse_state *, const char *word);
void parse_need_sign(struct parse_state *, char);
/* Whether item i of a list with commas comes next; else the list is closed. */
bool parse_item(struct parse_state *, uint32_t i, char close);
const char *parse_need(struct parse_state *, enum parse_token, const char *what); /* "" after an error */
int64_t parse_need_integer(struct parse_state *, int64_t least, int64_t most);
ir_value parse_need_value(struct parse_state *); /* %1, of the function at hand */
struct ir_type parse_need_type(struct parse_state *);
void parse_optional_sharding(struct parse_state *, struct ir_sharding *);
void parse_optional_place(struct parse_state *, uint32_t *place);
int32_t parse_optional_slot(struct parse_state *); /* -1: none */
double parse_number_of(struct parse_state *, const char *word, struct diag_span);

/* The numbers of a constant come before its type: they are stepped over, and read once the type is known. */
struct parse_data {
    size_t at;
    bool splat;
};
struct parse_data parse_skip_data(struct parse_state *);
void parse_read_data(struct parse_state *, struct parse_data, struct ir_node *);

/* plan_parse.c: what stands behind the words `plans` and `plan`; the data of constant buffers, once all is verified;
 * where the text tells of a place. */
void parse_plans(struct parse_state *);
void parse_plan(struct parse_state *);
void parse_plan_data(struct parse_state *);
struct diag_span parse_plan_span(const struct parse_state *, struct plan_place);
#endif
