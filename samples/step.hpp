// stepc/step.h for C++: RAII and exceptions, nothing more. C++17.
#ifndef SAMPLES_STEP_HPP
#define SAMPLES_STEP_HPP
#include <cstdint>
#include <stdexcept>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stepc/step.h"
#include "stepc/step_checkpoints.h"
#include "stepc/step_open.h"

namespace step
{

struct error : std::runtime_error {
    step_status status;
    error(step_status s, const std::string &text) : std::runtime_error(text), status(s) {}
};

/// The dtype of a C++ type. 16-bit floats have none: a uint16_t is taken for the bits of a bfloat16, unless an array
/// says STEP_F16 or STEP_U16. A std::vector<bool> is no array; bool tensors are read into std::vector<uint8_t> as
/// STEP_BOOL.
template <class T> struct dtype_of;
template <uint32_t code> struct dtype {
    static constexpr uint32_t value = code;
};
template <> struct dtype_of<uint8_t> : dtype<STEP_U8> {
};
template <> struct dtype_of<int8_t> : dtype<STEP_I8> {
};
template <> struct dtype_of<uint16_t> : dtype<STEP_BF16> {
};
template <> struct dtype_of<int16_t> : dtype<STEP_I16> {
};
template <> struct dtype_of<uint32_t> : dtype<STEP_U32> {
};
template <> struct dtype_of<int32_t> : dtype<STEP_I32> {
};
template <> struct dtype_of<uint64_t> : dtype<STEP_U64> {
};
template <> struct dtype_of<int64_t> : dtype<STEP_I64> {
};
template <> struct dtype_of<float> : dtype<STEP_F32> {
};
template <> struct dtype_of<double> : dtype<STEP_F64> {
};

/// Bytes of an element; 0: no such dtype.
inline size_t bytes_of(uint32_t dtype)
{
    static constexpr unsigned char bytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 2, 2, 4, 8};
    return dtype < sizeof bytes ? bytes[dtype] : 0;
}

/// For C, where a name or a path ends at the first NUL: what is behind it would be lost, and another one meant.
inline const char *c_text(const std::string &text)
{
    if (text.find('\0') != std::string::npos)
        throw error(STEP_EINVAL, std::string("\"") + text.c_str() + "...\": a name cannot have a NUL in it");
    return text.c_str();
}

/// A view of host memory in C order; it must outlive the call that it is given to.
struct array {
    std::string name;
    std::vector<int64_t> shape;
    uint32_t dtype;
    void *data;
    template <class T>
    array(std::string n, std::vector<int64_t> s, std::vector<T> &v, uint32_t d = dtype_of<T>::value)
        : name(std::move(n)), shape(std::move(s)), dtype(d), data(v.data())
    {
        uint64_t elements = 1;
        for (int64_t extent : shape)
            if (extent < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements))
                throw error(STEP_ESHAPE, "array \"" + name + "\": no shape: an extent of " + std::to_string(extent));
        if (elements != v.size())
            throw error(STEP_ESHAPE, "array \"" + name + "\": its shape has " + std::to_string(elements) +
                                         " elements, the vector " + std::to_string(v.size()));
        if (sizeof(T) != bytes_of(dtype))
            throw error(STEP_ESHAPE, "array \"" + name + "\": dtype " + std::to_string(dtype) + " has elements of " +
                                         std::to_string(bytes_of(dtype)) + " bytes, the vector of " +
                                         std::to_string(sizeof(T)));
    }
    /// Memory that is large enough, as the caller says.
    array(std::string n, std::vector<int64_t> s, uint32_t d, void *p)
        : name(std::move(n)), shape(std::move(s)), dtype(d), data(p)
    {
    }
    step_array c() const
    {
        step_array a{};
        a.size = sizeof a;
        a.name = c_text(name), a.data = data, a.dtype = dtype;
        a.rank = static_cast<int32_t>(shape.size()), a.shape = shape.data();
        return a;
    }
};

/// What a trainer keeps (a parameter, an average, a slot of the optimizer, a counter), or an output of the model.
struct slot {
    std::string name;
    uint32_t role, dtype;
    std::vector<int64_t> shape;
    uint64_t bytes;
};

/// Names wanted and where their values are, in order: see trainer::load.
using name_map = std::vector<std::pair<std::string, std::string>>;

/// As a string of JSON.
inline std::string quoted(const std::string &text)
{
    static const char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (char c : text) {
        auto code = static_cast<unsigned char>(c);
        if (code < 32) out += std::string("\\u00") + digits[code >> 4] + digits[code & 15];
        else if (c == '"' || c == '\\') out += {'\\', c};
        else out += c;
    }
    return out + "\"";
}

/// One of a run directory; see stepc/step_checkpoints.h.
struct checkpoint {
    uint64_t step;
    std::string path, time; ///< time: "2027-03-01T12:00:00Z"; empty where the manifest is damaged
    uint64_t bytes;
    bool complete;
    std::map<std::string, double> metrics;
};

/// All of a run directory, the oldest first; no trainer is needed.
inline std::vector<checkpoint> checkpoints(const std::string &folder)
{
    step_checkpoint *list;
    size_t count;
    char text[1024];
    step_status status = step_checkpoints(c_text(folder), &list, &count, text, sizeof text);
    if (status != STEP_OK) throw error(status, text);
    std::vector<checkpoint> out;
    for (const step_checkpoint *c = list; c < list + count; c++) {
        out.push_back({c->step, c->path, c->time, c->bytes, c->complete != 0, {}});
        for (size_t i = 0; i < c->metric_count; i++) out.back().metrics[c->metrics[i].name] = c->metrics[i].value;
    }
    step_checkpoints_free(list, count);
    return out;
}

/// A save that runs beside the training. Who does not wait for it learns from the next one how it ended.
class checkpoint_job
{
  public:
    checkpoint_job(const step_api *api, step_job *job) : api_(api), job_(job) {}
    checkpoint_job(checkpoint_job &&from) noexcept : api_(from.api_), job_(std::exchange(from.job_, nullptr)) {}
    checkpoint_job(const checkpoint_job &) = delete;
    checkpoint_job &operator=(const checkpoint_job &) = delete;
    ~checkpoint_job() { api_->job_free(job_); }
    /// Until the checkpoint is on the disk; an error if it is not. False: the time is over (milliseconds; -1: none).
    bool wait(int64_t timeout_ms = -1)
    {
        step_status status = api_->job_wait(job_, timeout_ms);
        if (status != STEP_OK && status != STEP_ETIMEOUT) throw error(status, api_->last_error(nullptr));
        return status == STEP_OK;
    }

  private:
    const step_api *api_;
    step_job *job_;
};

/// One trainer: a compiled step and its state.
class trainer
{
  public:
    explicit trainer(const char *path)
    {
        char text[1024];
        step_status status = step_open(path, &api_, text, sizeof text);
        if (status != STEP_OK) throw error(status, text);
        step_options options{};
        options.size = sizeof options;
        status = api_->create(&options, &instance_);
        if (status != STEP_OK) throw error(status, api_->last_error(nullptr));
    }
    trainer(const trainer &) = delete;
    trainer &operator=(const trainer &) = delete;
    ~trainer() { api_->destroy(instance_); }

    void init() { check(api_->init(instance_)); }
    double step(const std::vector<array> &inputs) { return run(batch(inputs)).loss; }
    /// The same with a policy, STEP_ON_NONFINITE_SKIP or _STOP (an error then): a step whose loss or update is NaN or
    /// infinite leaves every bit of the state as it was. Flags of the result tell: STEP_NONFINITE, STEP_SKIPPED.
    step_result step(const std::vector<array> &inputs, uint32_t policy)
    {
        batch b(inputs);
        b.c.flags = policy;
        return run(b);
    }
    /// `accept(result)` is asked before a step counts; without its consent the state stays as it was and the result
    /// says STEP_SKIPPED. It may read metrics(), but not call the trainer. What it throws comes out of here.
    template <class F>
    auto step(const std::vector<array> &inputs, F accept) -> decltype(bool(accept(step_result())), step_result())
    {
        struct context {
            trainer *self;
            F *accept;
            std::exception_ptr thrown;
        } asked{this, &accept, nullptr};
        batch b(inputs);
        b.c.user = &asked;
        b.c.accept = [](void *user, const step_result *r) -> int {
            context &c = *static_cast<context *>(user);
            try {
                return (*c.accept)(*r) ? 1 : 0;
            } catch (...) {
                c.thrown = std::current_exception();
                return 0;
            }
        };
        step_result r = run(b);
        if (asked.thrown) std::rethrow_exception(asked.thrown);
        return r;
    }
    /// A step in two calls: computed here, it counts when `commit` says so; every bit of the state stays as it was
    /// until then, or for ever if the object ends first. What else changes the state discards it, too.
    class computed
    {
      public:
        const step_result result;
        computed(trainer *t, const step_result &r) : result(r), trainer_(t), number_(++t->computed_) {}
        computed(computed &&from) noexcept
            : result(from.result), trainer_(std::exchange(from.trainer_, nullptr)), number_(from.number_)
        {
        }
        ~computed()
        {
            if (trainer_ && number_ == trainer_->computed_) trainer_->api_->commit(trainer_->instance_, 0);
        }
        void commit()
        {
            if (!trainer_) throw error(STEP_EINVAL, "commit: this step was committed before");
            trainer &t = *std::exchange(trainer_, nullptr);
            if (number_ != t.computed_)
                throw error(STEP_EINVAL, "commit: this step was discarded: another one was computed after it");
            t.check(t.api_->commit(t.instance_, 1));
        }

      private:
        trainer *trainer_;
        uint64_t number_; // of the steps that were computed
    };
    computed compute(const std::vector<array> &inputs, uint32_t policy = STEP_ON_NONFINITE_CONTINUE)
    {
        batch b(inputs);
        b.c.flags = policy | STEP_COMPUTE;
        return computed(this, run(b));
    }
    /// The loss without an update, by "params", "ema" or what other weights there are.
    double eval(const std::vector<array> &inputs, const char *weights = "params")
    {
        batch b(inputs);
        step_result r = result();
        check(api_->eval(instance_, &b.c, weights, &r));
        metrics_.resize(r.metric_count);
        return r.loss;
    }
    /// The metrics of the last step or evaluation that are one number each, in the order of slots(STEP_METRIC).
    const std::vector<double> &metrics() const { return metrics_; }
    /// The outputs that are asked for, by the inputs that the model reads; slots(STEP_OUTPUT) lists them.
    void infer(const std::vector<array> &inputs, const std::vector<array> &outputs, const char *weights = "params")
    {
        batch b(inputs), out(outputs);
        check(api_->infer(instance_, &b.c, weights, out.inputs.data(), out.inputs.size()));
    }
    void infer(const std::vector<array> &inputs, const array &output, const char *weights = "params")
    {
        infer(inputs, std::vector<array>{output}, weights);
    }
    void read(const array &to)
    {
        step_array a = to.c();
        check(api_->read(instance_, &a));
    }
    void write(const array &from)
    {
        step_array a = from.c();
        check(api_->write(instance_, &a));
    }
    /// The tensors of one role: STEP_PARAM, STEP_OUTPUT, ...
    std::vector<slot> slots(uint32_t role) const
    {
        std::vector<slot> out;
        for (size_t i = 0; i < api_->tensor_count(instance_, role); i++) {
            step_tensor t{};
            t.size = sizeof t;
            check(api_->tensor_at(instance_, role, i, &t));
            out.push_back({t.name, t.role, t.dtype, {t.shape, t.shape + t.rank}, t.bytes_global});
        }
        return out;
    }
    /// Everything that read and write know by name and that a run keeps.
    std::vector<slot> state() const
    {
        std::vector<slot> out;
        for (uint32_t role : {STEP_PARAM, STEP_EMA, STEP_OPT_STATE, STEP_STATE})
            for (slot &s : slots(role)) out.push_back(std::move(s));
        return out;
    }
    /// Hyper-parameters by name, until they are set again.
    double get(const std::string &name) const
    {
        double value = 0;
        check(api_->hyper_get(instance_, c_text(name), &value));
        return value;
    }
    void set(const std::string &name, double value) { check(api_->hyper_set(instance_, c_text(name), value)); }
    /// All state into one file, NAME.safetensors: whole or not there.
    void save(const std::string &file)
    {
        if (!is_file_name(file))
            throw error(STEP_EINVAL, "save: " + file + ": expected NAME.safetensors; save_into writes directories");
        step_save s{};
        s.size = sizeof s, s.directory = c_text(file);
        check(api_->save(instance_, &s, nullptr));
    }
    /// Begins to save into directory/step-N: the state is copied, training goes on. What keep does not keep is removed.
    /// Flags: STEP_SAVE_COMPRESS (the optimizer's state, by Zstandard), STEP_SAVE_COMPRESS_ALL.
    checkpoint_job save_into(const std::string &directory, const std::string &keep = "",
                             const std::map<std::string, std::string> &items = {},
                             const std::map<std::string, double> &metrics = {}, uint32_t flags = 0)
    {
        if (is_file_name(directory))
            throw error(STEP_EINVAL, "save_into: " + directory + ": this is the name of a file, which save writes");
        std::vector<step_item> some;
        std::vector<step_hyper> numbers;
        for (const auto &item : items) some.push_back({sizeof(step_item), c_text(item.first), c_text(item.second)});
        for (const auto &metric : metrics) numbers.push_back({sizeof(step_hyper), c_text(metric.first), metric.second});
        step_save s{};
        s.size = sizeof s, s.directory = c_text(directory), s.keep = keep.empty() ? nullptr : c_text(keep);
        s.flags = flags;
        s.items = some.data(), s.item_count = some.size(), s.metrics = numbers.data(), s.metric_count = numbers.size();
        step_job *job = nullptr;
        check(api_->save(instance_, &s, &job));
        return {api_, job};
    }
    /// The JSON that was saved under this name beside the state that was loaded last; empty: nothing.
    std::string item(const std::string &name) const
    {
        const char *text = api_->item(instance_, c_text(name));
        return text ? text : "";
    }
    /// A checkpoint, a run directory (its newest whole one), or a file of parameters and running statistics after init,
    /// or of all state. Flags: STEP_LOAD_PARTIAL (names may be missing or unknown), STEP_LOAD_CAST (other float
    /// dtypes), STEP_LOAD_PARAMS_ONLY (of a file of all state), STEP_LOAD_NO_VERIFY (checksums are not compared).
    void load(const std::string &file, uint32_t flags = 0) { load_as(file, nullptr, flags); }
    /// The same under other names: {{"encoder.*.**", "blocks.*.**"}, {"head.**", "init"}, {"**", "**"}}; the first rule
    /// that fits a name wanted says where it is (`stepc doc state`).
    void load(const std::string &file, const name_map &map, uint32_t flags = 0)
    {
        std::string text;
        for (const auto &rule : map)
            text += (text.empty() ? "{" : ",") + quoted(rule.first) + ":" + quoted(rule.second);
        load_as(file, text.empty() ? "{}" : (text += "}").c_str(), flags);
    }

  private:
    static bool is_file_name(const std::string &path)
    {
        const std::string end = ".safetensors";
        return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
    }
    void load_as(const std::string &file, const char *map, uint32_t flags)
    {
        step_load l{};
        l.size = sizeof l, l.path = c_text(file), l.map = map, l.flags = flags;
        check(api_->load(instance_, &l));
    }
    struct batch {
        std::vector<step_array> inputs;
        step_batch c{};
        explicit batch(const std::vector<array> &from)
        {
            for (const array &a : from) inputs.push_back(a.c());
            c.size = sizeof c, c.inputs = inputs.data(), c.input_count = inputs.size();
        }
    };
    step_result run(const batch &b)
    {
        step_result r = result();
        check(api_->step(instance_, &b.c, &r));
        metrics_.resize(r.metric_count);
        return r;
    }
    step_result result()
    {
        step_result r{};
        metrics_.resize(api_->tensor_count(instance_, STEP_METRIC));
        r.size = sizeof r, r.metrics = metrics_.data(), r.metric_capacity = static_cast<uint32_t>(metrics_.size());
        return r;
    }
    void check(step_status status) const
    {
        if (status != STEP_OK) throw error(status, api_->last_error(instance_));
    }
    const step_api *api_ = nullptr;
    step_instance *instance_ = nullptr;
    std::vector<double> metrics_;
    uint64_t computed_ = 0;
};

} // namespace step
#endif
