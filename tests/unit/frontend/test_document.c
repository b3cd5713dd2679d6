/* The top level: what is registered, and the one diagnostic that each mistake gives. */
#include "tests/unit/frontend/fe_test.h"

static struct fixture f;

#define REST "\"model\": {\"type\": \"linear\"}, \"loss\": \"mean(model)\", \"optimizer\": {\"type\": \"sgd\"}"
#define INPUTS \
    "\"inputs\": {\"x\": {\"shape\": [8, 4], \"axes\": [\"batch\", null]}, \"y\": {\"shape\": [8], \"dtype\": " \
    "\"int32\"}}, "

static bool read(const char *text, const char *mesh, const struct fe_define *defines, size_t count)
{
    if (!fixture_scan(&f, text)) return false;
    f.options = (struct fe_options){.defines = defines, .define_count = count, .mesh = mesh};
    return fe_document(&f.fe) & fe_check_definitions(&f.fe);
}

START_TEST(registers)
{
    struct fe_define define = {"width", "2.5e0"};
    bool good = read("{\"stepc\": 1, \"name\": \"n\", \"//\": \"a comment\", \"constants\": {\"b\": 8, \"d\": "
                     "\"$b//2\", \"width\": 7}, "
                     "\"inputs\": {\"x\": {\"shape\": [\"$b\", \"$d\"], \"axes\": [\"batch\", \"embed\"]}, \"y\": "
                     "{\"shape\": [8], \"dtype\": \"int32\"}, "
                     "\"t\": {\"shape\": [], \"axes\": []}}, "
                     "\"mesh\": {\"axes\": {\"data\": 2, \"model\": 4}}, \"sharding\": {\"rules\": [[\"batch\", "
                     "\"data\"], [\"embed\", null]], "
                     "\"params\": {\"**\": [null, [\"data\", \"model\"]]}, \"inputs\": {\"y\": [\"data\"]}}, " REST "}",
                     "data=4", &define, 1);
    char *said = fixture_said(&f);
    ck_assert_msg(good, "%s", said);
    free(said);
    const struct ir_module *m = f.fe.module;
    const uint32_t *slots;
    ck_assert_str_eq(m->name, "n");
    ck_assert_uint_eq(fe_inputs(&f.fe, &slots), 3);
    const struct ir_slot *x = &m->slots.items[slots[0]], *y = &m->slots.items[slots[1]];
    ck_assert(x->role == IR_ROLE_INPUT && x->type.dtype == IR_F32 && x->type.rank == 2 && x->type.dim[0] == 8 &&
              x->type.dim[1] == 4);
    ck_assert(x->batch_dims == 1 && y->batch_dims == 0 && y->type.dtype == IR_I32);
    ck_assert(fe_input_batched(&f.fe, 0) && fe_input_batched(&f.fe, 1) && !fe_input_batched(&f.fe, 2));
    ck_assert(x->sharding_given && x->sharding.dim[0] == 1 && x->sharding.dim[1] == 0);
    ck_assert(y->sharding_given && y->sharding.dim[0] == 1);
    ck_assert(fe_constant(&f.fe, "width")->value == 2.5 && !fe_constant(&f.fe, "width")->integer);
    ck_assert(m->mesh.axis_count == 2 && m->mesh.size[0] == 4 && m->mesh.size[1] == 1);
    ck_assert_ptr_nonnull(strstr(m->document, "\"width\":2.5e0"));
    ck_assert_ptr_null(strstr(m->document, "comment"));
    fixture_free(&f);
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *text, *says;
    } table[] = {
        {"[1]", "a document is an object"},
        {"{" INPUTS REST "}", "needs \"stepc\""},
        {"{\"stepc\": 7, " INPUTS REST "}", "found 7"},
        {"{\"stepc\": 1, " REST "}", "needs \"inputs\""},
        {"{\"stepc\": 1, \"name\": 3, " INPUTS REST "}", "\"name\" must be a string, found 3"},
        {"{\"stepc\": 1, \"optimiser\": {}, " INPUTS "\"model\": {}, \"loss\": \"x\"}", "did you mean \"optimizer\"?"},
        {"{\"stepc\": 1, \"type\": \"x\", " INPUTS REST "}", "unknown key \"type\""},
        {"{\"stepc\": 1, \"constants\": {\"a\": \"$b\", \"c\": \"$a\"}, " INPUTS REST "}", "unknown constant \"b\""},
        {"{\"stepc\": 1, \"constants\": {\"a\": true}, " INPUTS REST "}", "expected a number, found true"},
        {"{\"stepc\": 1, \"constants\": {\"2a\": 1}, " INPUTS REST "}", "cannot be the name of a constant"},
        {"{\"stepc\": 1, \"define\": {\"linear\": {\"body\": {\"type\": \"relu\"}}}, " INPUTS REST "}",
         "is a block of the language already"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [8, -4]}}, " REST "}", "at /inputs/x/shape/1"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4294967296, 4294967296]}}, " REST "}", "at /inputs/x/shape"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [1,1,1,1,1,1,1,1,1]}}, " REST "}",
         "at most 8 entries, found 9"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [8], \"dtype\": \"flaot32\"}}, " REST "}",
         "did you mean \"float32\"?"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [8], \"dtyp\": \"float32\"}}, " REST "}", "at /inputs/x/dtyp"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [8], \"axes\": [\"batch\", null]}}, " REST "}",
         "2 entries for a shape of 1"},
        {"{\"stepc\": 1, \"inputs\": {\"model\": {\"shape\": [8]}}, " REST "}", "has a meaning in expressions"},
        {"{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [8], \"axes\": [\"batch\"]}, \"y\": {\"shape\": [4], "
         "\"axes\": [\"batch\"]}}, " REST "}",
         "has 4 rows, that of an earlier one 8"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 0}}, " INPUTS REST "}", "at /mesh/axes/data"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 4096, \"model\": 2}}, " INPUTS REST "}", "8192 devices"},
        {"{\"stepc\": 1, \"mesh\": {\"axis\": {}}, " INPUTS REST "}", "did you mean \"axes\"?"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"rules\": [[\"mlp\", "
         "\"tensor\"]]}, " INPUTS REST "}",
         "at /sharding/rules/0/1"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"params\": {\"**\": [\"dta\"]}}, " INPUTS
             REST "}",
         "did you mean \"data\"?"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"params\": {\"**\": [\"data\", "
         "\"data\"]}}, " INPUTS REST "}",
         "splits two dimensions"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"resolver\": \"firstfit\"}, " INPUTS REST
         "}",
         "did you mean \"first_fit\"?"},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"inputs\": {\"z\": []}}, " INPUTS REST
         "}",
         "has no input \"z\""},
        {"{\"stepc\": 1, \"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"inputs\": {\"y\": [null, "
         "null]}}, " INPUTS REST "}",
         "a spec of 2 entries"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_msg(!read(table[i].text, NULL, NULL, 0), "%s was accepted", table[i].text);
        char *said = fixture_said(&f);
        ck_assert_msg(strstr(said, table[i].says) != NULL, "%s: %s", table[i].text, said);
        ck_assert_msg(f.diags.errors == 1, "%s: %s", table[i].text, said);
        free(said);
        fixture_free(&f);
    }
}
END_TEST

START_TEST(command_line)
{
    const char *text = "{\"stepc\": 1, \"constants\": {\"hidden\": 7}, " INPUTS REST "}";
    static const struct fe_define defines[] = {{"hiden", "3"}, {"hidden", "3x"}, {"hidden", ""}, {"hidden", "true"}};
    static const char *const says[] = {"did you mean \"hidden\"?", "the value is a number", "the value is a number",
                                       "the value is a number"};
    for (size_t i = 0; i < 4; i++) {
        ck_assert(!read(text, NULL, &defines[i], 1));
        char *said = fixture_said(&f);
        ck_assert_msg(strstr(said, says[i]) != NULL && f.diags.errors == 1, "%s", said);
        free(said);
        fixture_free(&f);
    }
    static const char *const meshes[] = {"",        "data",      "data=",
                                         "data=0",  "data=2,",   "data=2,data=3",
                                         "2=2",     "data=5000", "a=1,b=1,c=1,d=1,e=1,f=1,g=1",
                                         "data=-1", ","};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        ck_assert_msg(!read(text, meshes[i], NULL, 0), "--mesh %s", meshes[i]);
        ck_assert_uint_eq(f.diags.errors, 1);
        fixture_free(&f);
    }
}
END_TEST

int main(void) { return run_case("document", CASE_OF(30, registers, mistakes, command_line)); }
