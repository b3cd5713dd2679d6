/* What the files of `stepc run` share: run.c (the loop), run_object.c (opening), run_data.c (batches), run_output.c
 * (messages), run_write.c (saved files), run_checkpoint.c (directories). */
#ifndef FRONTEND_CLI_RUN_H
#define FRONTEND_CLI_RUN_H
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"
#include <signal.h>
#include <stepc/step.h>
#include <stepc/step_tools.h>

/* Tensors with a leading step dimension, one per input of the step. */
struct run_data {
    const char *option; /* "--data", for messages */
    struct run_tensor {
        struct st_file *file;
        const struct st_tensor *tensor;
        uint64_t bytes; /* of one step */
        char *memory;   /* all steps or rows; NULL where `streamed` */
        bool rows;      /* else what all batches share, or steps */
        uint32_t dtype; /* of the input: the file may have its numbers in another width */
        bool counts;    /* no tensor: IR_ROWS_INPUT, how many rows count */
    } *tensors;
    struct step_array *arrays;
    struct run_slot { /* a batch: by turns that of the step and the one that is read ahead */
        struct step_array *arrays;
        char **room;     /* by tensor: where it does not lie in `memory` as it is; NULL: not needed yet */
        int32_t counted; /* how many rows count */
    } slots[2];
    struct run_ahead *ahead; /* run_ahead.c; NULL: nothing is read ahead */
    /* All of batch k, by any thread but one at a time: 0, or an exit code with `error`. */
    int (*fill)(struct run_data *, struct run_slot *, uint64_t k, char error[ST_TEXT]);
    size_t count;
    uint64_t steps; /* leading extent; 0 if the step has no inputs */
    bool streamed;
    bool some;       /* inputs without a tensor are left out: infer does not need all */
    bool once;       /* rows are taken once, zeros fill the last batch; else over their end, as training does */
    bool partial;    /* the step leaves out rows that do not count: no batch reaches over the end of the data */
    uint64_t rows;   /* tensors without the dimension of steps: how many; 0: they count steps */
    uint64_t batch;  /* then: rows of a batch */
    uint64_t *order; /* of --shuffle: of the rows in this round; NULL: as they are */
    uint64_t seed, round;
    VEC(struct st_file *) files;
};

/* run_checkpoint.c */
struct run_checkpoint {
    const char *folder, *resume; /* NULL: none; resume: "auto" or a path */
    const char *keep;            /* rules of retention, NULL: all stay */
    uint64_t every, pause_ns;    /* 0: not so */
    const char *made;            /* the first of the folders that were not there, NULL: all were */
    uint32_t flags;              /* STEP_SAVE_* */
    bool go_on;                  /* where a save fails */
    bool resumed, failed, told;  /* failed: the last save */
    bool due;                    /* the evaluation of `step` was not finished */
    bool over;                   /* a save that failed ends the run: the state is not saved once more */
    uint64_t step, saved;        /* of the state; the last one saved or being saved */
    uint64_t evaluated;          /* the last one that was evaluated */
    struct step_job *job;        /* of `saved`, NULL: none runs */
    uint64_t begin_ns, waited_ns;
};

/* --stop-when, --keep-best and --reduce-on-plateau (run_watch.c). */
enum { RUN_STOP, RUN_KEEP, RUN_REDUCE, RUN_WATCHES };
struct run_watch {
    const char *option, *text, *metric, *key; /* text NULL: not given; key: in the item of checkpoints */
    bool largest, evaluated;                  /* evaluated: of --eval-data */
    bool seen, better;                        /* there is a best one; it is the last one */
    uint32_t number;                          /* of the metric */
    uint64_t patience, missed, step;          /* how often it was not better since; after which step */
    double delta, best;
    double factor, least; /* of the hyper-parameter that is reduced; never below `least` */
    const char *hyper;
};

struct run_set {
    const char *name;
    double value;
    uint64_t step;
};

/* The losses of a run so far: means of equally many steps, fewer steps than there are columns or some more. */
enum { RUN_CURVE = 16 };
struct run_curve {
    double sums[2 * RUN_CURVE];
    uint64_t stride, in_last; /* steps of a sum; of the one that is being made */
    uint32_t count;           /* complete ones */
};

struct run {
    struct cli *cli;
    const char *path;
    bool fits;               /* what -D and --mesh say of documents is no mistake here */
    struct step_place place; /* among the ranks of a mesh */
    int stopped;             /* of several ranks: the signal that they have agreed on */
    bool save_wanted;
    bool lost; /* a rank is, or came too late */
    bool over; /* all ranks know that one cannot go on */
    const struct step_api *api;
    struct step_instance *instance;
    const char *manifest; /* NULL: none (the interpreter) */
    const char *name;
    struct run_data data, eval_data, infer_data;
    struct run_checkpoint checkpoint;
    struct run_watch watches[RUN_WATCHES];
    VEC(struct run_set) sets;
    uint64_t steps, eval_every;
    const char *eval_weights;
    bool eval_last;              /* after the last step */
    int32_t eval_count;          /* number of the scalar metric that says what a batch counts for; -1: all the same */
    uint32_t policy;             /* STEP_ON_NONFINITE_* */
    bool was_finite;             /* parameters and averages before the first step */
    uint64_t nonfinite, skipped; /* the first step that was not finite, 0: none; how many were skipped */

    struct step_tensor *metrics; /* all, in order */
    size_t metric_count;
    double *scalars; /* of the step, in the order of the rank 0 ones */
    uint32_t scalar_count;
    double *eval_sums;       /* per scalar, plus the loss at the end */
    struct run_sinks *sinks; /* run_metrics.c; NULL: no option names one */

    uint64_t begin_ns, shown_ns, best_ns, done, first_step;
    double shown_rate;
    uint64_t shown_done;
    struct run_curve curve;
    double last_loss;
    bool line_open; /* a progress line stands on the terminal */
};

int run_status(struct run *, step_status, const char *doing); /* message; exit code */
const char *run_message(const char *text);                    /* last_error without the name of the status */

/* run_signals.c: keeps what was set before in `old`. */
enum { RUN_SIGNALS = 4, RUN_STOPPED = 128 };
void run_signals_catch(struct sigaction old[RUN_SIGNALS]);
void run_signals_restore(struct run *, const struct sigaction old[RUN_SIGNALS]);
/* What writes checkpoints and folders catches signals, asks before every tensor that it reads, and clears away what it
 * has written; at the end the parent sees the signal. */
step_status run_stoppable(char error[ST_TEXT]);
void run_stoppable_end(const struct sigaction old[RUN_SIGNALS]);
int run_stop_code(const struct run *); /* of a rank that all is well with, but that was stopped; 0: it was not */
int run_stopped(const struct run *);   /* the signal by which; 0: none */
bool run_save_wanted(struct run *);    /* by SIGUSR1, since this was asked last */
uint64_t run_signals_seen(void);       /* the first, and a bit for the second: of this process alone */
void run_signals_interrupt(void); /* from now on they end a call that waits: a pipe may have nobody at its other end */

/* run_object.c. 0 or an exit code after a message. */
int run_open(struct run *);
int run_agree(struct run *,
              int code); /* of several ranks: all see the signals of all from here on, and the worst exit code */
void run_close(struct run *);

/* interp.c: an instance that interprets a document, and the document's name. */
int cli_interpret(struct cli *, const char *path, const struct step_api **, struct step_instance **, const char **name);

/* run_launch.c: the same command as ranks of mpirun. */
int run_launch(struct cli *);
/* For who started this rank: it began; it has done all, or stopped; the call that failed says why it gives up. */
void run_mark_begin(struct cli *);
void run_mark_end(const struct run *, int code);
void run_mark_lost(const struct run *);

/* run_data.c */
int run_data_open(struct run *, struct run_data *, const char *option);
int run_data_batch(struct run *, struct run_data *, uint64_t k, struct step_batch *); /* batch of step k, from 0 */
void run_data_close(struct run_data *);

/* run_ahead.c: waits for what is being read; the slot of batch k, true: it is there; asks for that of batch k. */
void run_ahead_wait(struct run_data *);
bool run_ahead_take(struct run_data *, uint64_t k, struct run_slot **);
void run_ahead_ask(struct run_data *, uint64_t k);
void run_ahead_end(struct run_data *);

/* run_numbers.c: whether a tensor's numbers can become an input's; `bytes` of these from `offset` of the input's: 0,
 * or an exit code with `error`. */
bool run_numbers_fit(uint32_t from, uint32_t to);
int run_numbers_read(const struct run_tensor *, uint64_t offset, void *to, uint64_t bytes, char error[ST_TEXT]);

/* run_rows.c: the batch of step k where it lies in memory, or gathered. */
int run_rows_open(struct run *, struct run_data *);
int run_rows_batch(struct run_data *, struct run_tensor *, uint64_t k, char **room, char **data, char error[ST_TEXT]);
int run_room(const struct run_tensor *, char **room, char error[ST_TEXT]); /* for one batch of it */
uint64_t run_rows_counted(const struct run_data *, uint64_t k);         /* of the batch of step k, the others fill it */
const char *run_rows_text(struct run *, struct run_data *, uint64_t k); /* a step and the rows of its batch, from 0 */
void run_rows_close(struct run_data *);

/* Files of other formats as files of tensors. 0 or an exit code after a message.
 * run_npy.c, run_npz.c: NumPy's; the array between two places of the file is one more tensor; the room for it is there.
 * run_csv.c: a table (name NULL: columns by the names of inputs). run_tokens.c: windows of tokens. */
bool run_is_npy(const char *path);
int run_npy_open(const struct cli *, struct st_file *, const char *name, const char *path);
int run_npy_read(const struct cli *, struct st_file *, const char *name, uint64_t from, uint64_t to);
int run_npz_open(const struct cli *, struct st_file *, const char *path);
int run_csv_open(struct run *, struct st_file *, const char *name, const char *path);
int run_tokens_open(const struct cli *, struct st_file *, const struct step_tensor *input, const char *path,
                    uint64_t late);

/* How often ranks say that they are there, while one of them has something to do that may take long. */
enum { RUN_PAUSE_MS = 500 };
/* run_write.c: st_write of the first rank, in which all take part. `path` NULL, of the first: `error` says why it
 * cannot be written. */
step_status run_write(struct run *, const char *path, const struct st_tensor *, uint32_t count, st_fetch *, void *user,
                      char error[ST_TEXT]);

int run_save(struct run *, const char *path, bool all_state);
int run_save_possible(struct run *, const char *option, const char *path); /* asked before the first step */
int run_save_folder(struct run *, const char *path);                       /* the same of --save-dir, which is made */
void run_save_folder_undo(const struct run *);

/* run_infer.c */
int run_infer(struct run *, const char *path); /* the outputs of the model into a file */

/* run_checkpoint.c. 0 or an exit code after a message. */
uint32_t run_save_flags(const struct cli *); /* --compress: STEP_SAVE_* */
int run_checkpoint_options(struct run *);
int run_checkpoint_begin(struct run *);    /* loads what is resumed */
int run_checkpoint_position(struct run *); /* steps and batches that lie behind it, once first_step is known */
bool run_is_whole(const char *path);       /* a checkpoint of which every file has its checksum */
int run_checkpoint_metrics(struct run *);  /* there are not too many of them to be saved */
int run_checkpoint_step(struct run *, bool now, int code); /* code: what has gone wrong before, 0 */
int run_checkpoint_end(struct run *);

const char *run_checkpoint_item(const struct run *); /* how far the run that is resumed was; NULL: none is */

/* run_watch.c: opened when metrics are known, with that item; said when the run is over. */
int run_watch_open(struct run *, const char *item);
int run_watch_step(struct run *, bool stepped, bool evaluated); /* 0 or an exit code after a message */
bool run_watch_better(const struct run *);                      /* --keep-best: a checkpoint is due */
bool run_watch_over(const struct run *);
void run_watch_say(struct run *);
const char *run_watch_text(const struct run *); /* for the item */

/* run_checkpoint_open.c: a checkpoint, or the newest of a run directory that is before step *below, which becomes its
 * own, and whose manifest is whole (NULL: none); opened; in which of its items a tensor is: "params", ...; "": it is no
 * checkpoint, but a file. */
const char *run_newest(struct cli *, const char *path, uint64_t *below);
int run_map(struct cli *, const char **text); /* of --map; NULL: none */
int run_open_any(struct cli *, struct st_checkpoint *, const char *path);
int run_path_missing(const struct cli *, const char *option, const char *path); /* 0: it is there */
const char *run_role_of(struct cli *, const struct st_checkpoint *, const struct st_tensor *);
int run_file_failed(const struct cli *, step_status, const char *error); /* the code of what a file is or has not */
/* run_export.c: `stepc checkpoint export`, `convert` and `import`. */
int run_export(struct cli *, const char *path);
int run_convert(struct cli *, const char *path);
int run_import(struct cli *, const char *path);

/* run_init.c: what --init, --params-only, --init-partial and --cast say. 0 or an exit code after a message. */
int run_init_options(struct run *);
int run_init(struct run *, const char *path);
bool run_is_statistic(const char *name, int32_t rank); /* a running statistic, of a slot of role state */
/* Names for a message: the first ones, and how many more there are. */
struct run_listed {
    struct str text;
    uint32_t count;
};
void run_listed_add(struct run_listed *, const char *name);
const char *run_listed(struct run_listed *);
/* --peft: adapters of a folder of PEFT beside what --init or the initializers gave (run_peft.c). */
int run_peft(struct run *, const char *folder);

/* run_finite.c */
bool run_weights_lost(struct run *);   /* they were finite and are not any more, and nobody asked for it by name */
bool run_weights_finite(struct run *); /* parameters that are trained, and averages */
void run_nonfinite(struct run *, const struct step_result *); /* says so of the first step, counts */
int run_save_finite(struct run *, const char *path); /* NULL: nothing is saved. 0 or an exit code after a message */

/* run_metrics.c: rows of numbers for the sinks of --metrics, --csv and --tensorboard. 0 or an exit code after a
 * message. */
int run_metrics_open(struct run *);
int run_metrics_begin(
    struct run *, const struct step_result *); /* before the arrays of the step are overwritten; NULL: none was made */
int run_metrics_end(struct run *, const double *evaluated); /* NULL: nothing was evaluated */
int run_metrics_close(struct run *, bool keep);             /* what others may have read stays anyway */

/* run_events.c: an event file of TensorBoard in a folder, which is made; first_step: what the run continues from. */
struct run_events;
struct run_scalar {
    const char *name;
    double value;
};
struct run_events *run_events_open(struct arena *, const char *folder, uint64_t first_step, char error[ST_TEXT]);
bool run_events_add(struct run_events *, struct arena *, uint64_t step, const struct run_scalar *, uint32_t count,
                    char error[ST_TEXT]);
bool run_events_close(struct run_events *, char error[ST_TEXT]);

/* run_output.c */
void run_end_progress_line(struct run *);
const char *run_output_path(const struct run *, const char *path); /* of several ranks the first one writes */
const char *run_seconds(struct arena *, double);
void run_head(struct run *);
bool run_is_evaluated(const struct step_tensor *metric); /* one number, of the loss and what comes before it */
void run_show_evaluated(struct run *, uint64_t step);
void run_progress(struct run *, const struct step_result *, bool last);
void run_summary(struct run *);
#endif
