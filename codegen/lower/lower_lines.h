/* What the templates of lines along one dimension share: several lines are walked side by side, a line in each lane.
 * Where lines lie beside each other in memory, lanes load them as they are; lines that lie one behind the other are
 * loaded as tiles of lines by elements, which are turned in registers, and back. Too few lines for a tile are walked
 * one by one. */
#ifndef CODEGEN_LOWER_LINES_H
#define CODEGEN_LOWER_LINES_H
#include "codegen/lower/lower.h"

/* Lines are numbered by axes OUTER (before the dimension) and INNER (behind it); ALONG is the dimension itself. */
enum { LINES_OUTER, LINES_ALONG, LINES_INNER };

struct lower_lines {
    struct lower *l;
    const struct ir_node *node;
    bool turned, vectors; /* tiles, or lanes of lines as they lie; neither: one by one */
    int64_t extent, stride[3];
    uint32_t axis, part;   /* of the lines that are walked side by side */
    int64_t lines, copies; /* of one vector; vectors of them */
    bool sticks_out;
};

/* Sets up the axes for the group's root. `most`: vectors side by side. */
void lower_lines_choose(struct lower_lines *, struct lower *, int64_t most);
/* Opens the loops over all lines. */
struct lower_pos lower_lines_open(struct lower_lines *);
/* Elements of the group from one step of a part to the next. */
int64_t lower_lines_step(const struct lower_lines *, uint32_t axis, uint32_t part);
/* Opens the vectors of lines, and their lanes; of a tile its lines, and so many elements of each. The variable of the
 * outer loop; `mask`: of what sticks out, for stores (loads have it until l->tile_mask is cleared). */
nest_var lower_lines_vectors(struct lower_lines *, struct lower_pos *at, nest_value *mask);
/* Operand `which` of the root at a position; of the lines of a tile, turned: registers, of which each is an element. */
nest_value lower_lines_operand(struct lower_lines *, uint32_t which, const struct lower_pos *, enum ir_dtype);
uint32_t lower_lines_load(struct lower_lines *, const struct lower_pos *, int64_t count, uint32_t which, enum ir_dtype);
/* Stores the outputs where the root is that; of a tile that was walked. */
void lower_lines_store(struct lower_lines *, nest_value is, const struct lower_pos *, nest_value mask);
void lower_lines_store_tile(struct lower_lines *, uint32_t tile, const struct lower_pos *, int64_t count);
/* Number offset + scale * variable of a register, or element of a local. */
struct nest_index lower_lines_number(struct lower *, int64_t offset, nest_var, int64_t scale);
#endif
