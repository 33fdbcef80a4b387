// pcm.hpp: libpcm for C++17, over pcm.h. Header only; link with -lpcm before MPI (MPICC=mpicxx pcmcc does it).
//
//     pcm::array<double> t("t", {rows, cols}, {pcm::block(0), pcm::halo(0, 1)});
//     pcm::register_value("iteration", iteration);
//     pcm::session session;                 // the registration ends
//     while (iteration < last) {
//         if (session.iterate())            // ranks joined, left or moved
//             rank = ...;                   // t is up to date by itself; pointers taken from it before are not
//         ...
//
// Functions throw pcm::error, whose text is that of pcm_last_error. Those of a session also have a form that throws
// nothing and sets a std::error_code instead. What pcm.h says about a function holds for its counterpart here.

#ifndef PCM_HPP
#define PCM_HPP

#include <pcm.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace pcm {

// ---- errors ----------------------------------------------------------------------------------------------------

// A call failed.
class error : public std::runtime_error {
  public:
    error(pcm_result code, const std::string &text) : std::runtime_error(text), code_(code) {}
    pcm_result code() const noexcept { return code_; }

  private:
    pcm_result code_;
};

namespace detail {

class category_of_results : public std::error_category {
  public:
    const char *name() const noexcept override { return "pcm"; }
    // The text of the last failed call of this thread: ask for it before the next call.
    std::string message(int code) const override
    {
        const char *text = pcm_last_error();
        return text && *text ? text : "libpcm: error " + std::to_string(code);
    }
};

// An exception of a hook must not pass through C: it is kept here until the call that ran the hook has returned.
inline std::exception_ptr &of_a_hook()
{
    static std::exception_ptr kept;
    return kept;
}

// Counts the layouts this process has seen; an array looks up its memory again when it has changed.
inline unsigned long long &layout()
{
    static unsigned long long count = 0;
    return count;
}

inline pcm_result iterated(bool &is_changed)
{
    int result = pcm_iterate();
    is_changed = result == PCM_CHANGED;
    if (is_changed)
        layout()++;
    return is_changed ? PCM_OK : static_cast<pcm_result>(result);
}

inline pcm_result checked(pcm_result result)
{
    std::exception_ptr kept = std::exchange(of_a_hook(), nullptr);
    if (result == PCM_OK)
        return result;
    if (kept)
        std::rethrow_exception(kept);
    throw error(result, pcm_last_error());
}

template <typename T> T *found(T *address)
{
    if (address == nullptr)
        throw error(PCM_ERROR_ARGUMENT, pcm_last_error());
    return address;
}

// The registry of the library holds addresses of what is stored here until MPI ends, so nothing is ever removed.
template <typename T> T &stored(T value)
{
    static std::deque<std::unique_ptr<T>> *all = new std::deque<std::unique_ptr<T>>;
    all->push_back(std::make_unique<T>(std::move(value)));
    return *all->back();
}

// Runs a hook's body; what it throws becomes a failure that C understands.
template <typename Body> int guarded(int failure, Body body) noexcept
{
    try {
        return body();
    } catch (...) {
        of_a_hook() = std::current_exception();
        return failure;
    }
}

inline int run_hook(void *context) noexcept
{
    return guarded(1, [=] { return (*static_cast<std::function<void()> *>(context))(), 0; });
}

inline int next_layout(void *) noexcept
{
    return layout()++, 0;
}

// The first array registers the hook that runs before all hooks of the program.
inline void watch_layout()
{
    static bool is_watched = false;
    if (!is_watched)
        checked(pcm_on_change(next_layout, nullptr));
    is_watched = true;
}

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::category_of_results one;
    return one;
}

inline std::error_code make_error_code(pcm_result result) noexcept
{
    return {static_cast<int>(result), category()};
}

// ---- options of arrays -----------------------------------------------------------------------------------------

// How an axis is divided, or what an array is for: see PCM_BLOCK and the following in pcm.h.
class option {
  public:
    option(pcm_option_kind kind, int axis, std::size_t number = 0) : kind_(kind), axis_(axis), number_(number) {}
    // Weights of ranks, or costs of elements.
    option(pcm_option_kind kind, int axis, std::vector<double> numbers)
        : kind_(kind), axis_(axis), number_(numbers.size()), weights_(std::move(numbers))
    {
    }
    option(int axis, std::vector<std::size_t> counts)
        : kind_(PCM_OPTION_COUNTS), axis_(axis), number_(counts.size()), counts_(std::move(counts))
    {
    }
    // Valid as long as this option.
    pcm_option in_c() const
    {
        const void *list = nullptr;
        if (kind_ == PCM_OPTION_WEIGHTED || kind_ == PCM_OPTION_COSTS)
            list = weights_.data();
        else if (kind_ == PCM_OPTION_COUNTS)
            list = counts_.data();
        return {kind_, axis_, number_, list};
    }

  private:
    pcm_option_kind kind_;
    int axis_;
    std::size_t number_;
    std::vector<double> weights_;
    std::vector<std::size_t> counts_;
};

inline option block(int axis) { return {PCM_OPTION_BLOCK, axis}; }
inline option cyclic(int axis, std::size_t length) { return {PCM_OPTION_CYCLIC, axis, length}; }
inline option weighted(int axis, std::vector<double> weights)
{
    return {PCM_OPTION_WEIGHTED, axis, std::move(weights)};
}
// One cost for each element of the axis: the parts of all ranks cost about the same.
inline option costs(int axis, std::vector<double> costs) { return {PCM_OPTION_COSTS, axis, std::move(costs)}; }
inline option counts(int axis, std::vector<std::size_t> counts) { return {axis, std::move(counts)}; }
inline option halo(int axis, std::size_t width) { return {PCM_OPTION_HALO, axis, width}; }
inline option periodic(int axis) { return {PCM_OPTION_PERIODIC, axis}; }
inline option stale_halo() { return {PCM_OPTION_STALE_HALO, 0}; }
inline option scratch() { return {PCM_OPTION_SCRATCH, 0}; }
inline option constant() { return {PCM_OPTION_CONSTANT, 0}; }

// ---- arrays ----------------------------------------------------------------------------------------------------

namespace detail {

// How the library calls an element; a structure is known by its size.
template <typename T> constexpr int element()
{
    static_assert(std::is_trivially_copyable_v<T>, "elements travel as bytes: no pointers, no constructors");
    if constexpr (std::is_same_v<T, std::complex<float>>)
        return PCM_COMPLEX_FLOAT;
    else if constexpr (std::is_same_v<T, std::complex<double>>)
        return PCM_COMPLEX_DOUBLE;
    else if constexpr (std::is_same_v<T, float>)
        return PCM_FLOAT;
    else if constexpr (std::is_same_v<T, double>)
        return PCM_DOUBLE;
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) {
        constexpr int first = std::is_signed_v<T> ? PCM_INT8 : PCM_UINT8;
        return first + (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3);
    } else
        return PCM_BYTES(sizeof(T));
}

} // namespace detail

// Global indices from `first` to `end`, `end` excluded.
struct interval {
    std::size_t first, end;
    std::size_t size() const noexcept { return end - first; }
};

// A box of global indices: its first index and its length along each axis.
struct box {
    std::vector<std::size_t> start, length;
};

// The interval of an axis of any array that this rank owns.
inline interval bounds(const std::string &array, int axis)
{
    interval found{0, 0};
    detail::checked(pcm_bounds(array.c_str(), axis, &found.first, &found.end));
    return found;
}

// An array that is divided among the ranks. If it cannot be registered, the code of the error is PCM_ERROR_ARGUMENT, and
// its text says why. The object is a name for it: copies name the same array, and it stays
// registered when they are gone. Its memory is that of the library; pointers, iterators and spans of it are valid until
// session::iterate returns true, or until swap. Build a std::span or std::mdspan from data() and local_extents().
template <typename T> class array {
  public:
    using value_type = T;
    using iterator = T *;
    using const_iterator = const T *;

    array(std::string name, std::vector<std::size_t> extents, const std::vector<option> &options)
        : name_(std::move(name)), extents_(std::move(extents))
    {
        std::vector<pcm_option> in_c;
        for (const option &one : options)
            in_c.push_back(one.in_c());
        std::vector<const void *> form{extents_.data()};
        for (const pcm_option &one : in_c)
            form.push_back(&one);
        form.push_back(nullptr);
        detail::watch_layout();
        if (!pcm_array_create(name_.c_str(), detail::element<T>(), static_cast<int>(extents_.size()), form.data()))
            throw error(PCM_ERROR_ARGUMENT, pcm_last_error());
        look_up();
    }

    const std::string &name() const noexcept { return name_; }
    // Of the whole array.
    const std::vector<std::size_t> &extents() const noexcept { return extents_; }
    std::size_t axes() const noexcept { return extents_.size(); }

    // This rank's part, halo included, row-major.
    T *data() { return current().data_; }
    const T *data() const { return current().data_; }
    std::size_t size() const { return current().size_; }
    bool empty() const { return size() == 0; }
    T *begin() { return data(); }
    T *end() { return data() + size(); }
    const T *begin() const { return data(); }
    const T *end() const { return data() + size(); }
    // Along each axis, halo included.
    std::vector<std::size_t> local_extents() const
    {
        const auto &local = current().local_;
        return {local.begin(), local.begin() + static_cast<std::ptrdiff_t>(axes())};
    }
    std::size_t local_extent(std::size_t axis) const { return current().local_.at(axis); }

    // An element of the part, counted from the first one of the halo.
    T &operator[](std::size_t i) { return data()[i]; }
    const T &operator[](std::size_t i) const { return data()[i]; }
    T &operator()(std::size_t i, std::size_t j) { return data()[i * local_[1] + j]; }
    const T &operator()(std::size_t i, std::size_t j) const { return data()[i * local_[1] + j]; }
    T &operator()(std::size_t i, std::size_t j, std::size_t k) { return data()[(i * local_[1] + j) * local_[2] + k]; }
    const T &operator()(std::size_t i, std::size_t j, std::size_t k) const
    {
        return data()[(i * local_[1] + j) * local_[2] + k];
    }

    // The global indices of an axis that this rank owns; fails if the axis is cyclic.
    interval bounds(int axis) const { return pcm::bounds(name_, axis); }

    std::vector<box> boxes() const
    {
        std::size_t count = 0;
        detail::checked(pcm_box_count(name_.c_str(), &count));
        std::vector<box> all(count, box{extents_, extents_});
        for (std::size_t n = 0; n < count; n++)
            detail::checked(pcm_box(name_.c_str(), n, all[n].start.data(), all[n].length.data()));
        return all;
    }

    int owner(const std::vector<std::size_t> &index) const
    {
        int rank = 0;
        detail::checked(pcm_owner(name_.c_str(), whole(index), &rank));
        return rank;
    }

    // Where this rank stores a global index that it owns, from data().
    std::size_t local_offset(const std::vector<std::size_t> &index) const
    {
        std::size_t offset = 0;
        detail::checked(pcm_local_offset(name_.c_str(), whole(index), &offset));
        return offset;
    }

    // Exchanges the contents with those of an array of the same form; copies nothing.
    void swap(array &other)
    {
        detail::checked(pcm_swap(name_.c_str(), other.name_.c_str()));
        detail::layout()++;
    }

  private:
    const array &current() const
    {
        if (layout_ != detail::layout())
            look_up();
        return *this;
    }
    array &current()
    {
        static_cast<const array *>(this)->current();
        return *this;
    }
    void look_up() const
    {
        detail::checked(pcm_local_extents(name_.c_str(), local_.data()));
        data_ = static_cast<T *>(pcm_data(name_.c_str()));
        size_ = 1;
        for (std::size_t axis = 0; axis < axes(); axis++)
            size_ *= local_[axis];
        layout_ = detail::layout();
    }
    const std::size_t *whole(const std::vector<std::size_t> &index) const
    {
        if (index.size() != axes())
            throw error(PCM_ERROR_ARGUMENT, "array \"" + name_ + "\" has " + std::to_string(axes()) +
                                                " axes, the index has " + std::to_string(index.size()));
        return index.data();
    }

    std::string name_;
    std::vector<std::size_t> extents_;
    mutable std::array<std::size_t, 3> local_{};
    mutable T *data_ = nullptr;
    mutable std::size_t size_ = 0;
    mutable unsigned long long layout_ = 0;
};

// Memory of a program's vector, or of another container that is made by its size and moved without its elements moving.
namespace detail {

template <typename Vector> struct adopted {
    using element_type = typename Vector::value_type;
    Vector *own;
    std::list<Vector> made;

    static void *make(void *context, std::size_t bytes) noexcept
    {
        auto &all = static_cast<adopted *>(context)->made;
        try {
            return bytes == 0 ? nullptr : all.emplace_back(bytes / sizeof(element_type)).data();
        } catch (...) {
            return nullptr;
        }
    }
    static void take_up(void *context, void *memory, std::size_t bytes) noexcept
    {
        auto &self = *static_cast<adopted *>(context);
        auto found = bytes == 0 ? self.made.end() : self.find(memory);
        *self.own = found == self.made.end() ? Vector() : std::move(*found);
        if (found != self.made.end())
            self.made.erase(found);
    }
    static void give_back(void *context, void *memory) noexcept
    {
        auto &self = *static_cast<adopted *>(context);
        auto found = self.find(memory);
        if (found != self.made.end())
            self.made.erase(found);
    }
    typename std::list<Vector>::iterator find(void *memory)
    {
        return std::find_if(made.begin(), made.end(), [=](const Vector &one) { return one.data() == memory; });
    }
};

// The axis that options describe, and what they say of the whole array.
inline void describe(const option &one, std::vector<pcm_axis> &axes, int &flags)
{
    pcm_option in_c = one.in_c();
    const std::pair<int, int> of_arrays[] = {{PCM_OPTION_SCRATCH, PCM_FLAG_SCRATCH},
                                             {PCM_OPTION_CONSTANT, PCM_FLAG_CONSTANT},
                                             {PCM_OPTION_STALE_HALO, PCM_FLAG_STALE_HALO}};
    for (auto [kind, flag] : of_arrays) {
        if (in_c.kind == kind) {
            flags |= flag;
            return;
        }
    }
    if (in_c.axis < 0 || static_cast<std::size_t>(in_c.axis) >= axes.size())
        throw error(PCM_ERROR_ARGUMENT, "an option is for axis " + std::to_string(in_c.axis) + " of " +
                                            std::to_string(axes.size()) + " axes");
    pcm_axis &axis = axes[static_cast<std::size_t>(in_c.axis)];
    if (in_c.kind == PCM_OPTION_HALO)
        axis.halo = in_c.number;
    else if (in_c.kind == PCM_OPTION_PERIODIC)
        axis.periodic = 1;
    else {
        bool has_costs = in_c.kind == PCM_OPTION_COSTS;
        axis.split = has_costs ? PCM_SPLIT_COSTS : in_c.kind - PCM_OPTION_BLOCK + PCM_SPLIT_BLOCK;
        axis.number = in_c.number;
        axis.list = in_c.list;
    }
}

} // namespace detail

// Registers an array whose part on this rank is `vector`, such as a std::vector: the call gives it the part's size,
// zeroed, and each change gives it new contents. It must live until the end of MPI, and the program must not resize it.
// Swap two of them with pcm::swap.
template <typename Vector>
void adopt(const std::string &name, Vector &vector, const std::vector<std::size_t> &extents,
           const std::vector<option> &options)
{
    std::vector<pcm_axis> axes;
    int flags = PCM_FLAG_NONE;
    for (std::size_t extent : extents)
        axes.push_back({extent, PCM_SPLIT_NONE, 0, 0, 0, nullptr});
    for (const option &one : options)
        detail::describe(one, axes, flags);
    using adopted = detail::adopted<Vector>;
    adopted &kept = detail::stored(adopted{&vector, {}});
    pcm_memory_hooks hooks{&kept, adopted::make, adopted::take_up, adopted::give_back};
    detail::checked(pcm_adopt(name.c_str(), detail::element<typename Vector::value_type>(),
                              static_cast<int>(axes.size()), axes.data(), flags, &hooks));
}

// Exchanges two adopted arrays of the same form with their vectors; copies nothing.
template <typename Vector>
void swap(const std::string &one, Vector &vector, const std::string &other, Vector &other_vector)
{
    detail::checked(pcm_swap(one.c_str(), other.c_str()));
    std::swap(vector, other_vector);
}

// ---- rows of different lengths, records -------------------------------------------------------------------------

// The owners of rows, a list that all ranks have: see pcm_owner_list in pcm.h.
class owner_list {
  public:
    // Writes the owners among `ranks` over those that there were.
    using divide = std::function<void(int ranks, int *owners, std::size_t rows)>;

    // Rows in equal blocks at first, unless there is a list.
    owner_list(std::string name, std::size_t rows, const std::vector<int> &owners = {}, divide next = nullptr)
        : name_(std::move(name))
    {
        if (!owners.empty() && owners.size() != rows)
            throw error(PCM_ERROR_ARGUMENT, "region \"" + name_ + "\": there is not one owner for each row");
        pcm_divide_hook in_c = nullptr;
        void *context = nullptr;
        if (next) {
            context = &detail::stored(std::move(next));
            in_c = [](void *kept, int ranks, int *list, std::size_t count) {
                return detail::guarded(1, [=] { return (*static_cast<divide *>(kept))(ranks, list, count), 0; });
            };
        }
        detail::checked(
            pcm_owner_list(name_.c_str(), rows, owners.empty() ? nullptr : owners.data(), in_c, context));
    }
    const std::string &name() const noexcept { return name_; }
    // The rows of this rank, rising.
    std::vector<std::size_t> numbers() const
    {
        std::size_t count = 0;
        const std::size_t *first = detail::found(pcm_row_numbers(name_.c_str(), &count));
        return {first, first + count};
    }
    int owner(std::size_t row) const
    {
        int rank = 0;
        detail::checked(pcm_owner(name_.c_str(), &row, &rank));
        return rank;
    }

  private:
    std::string name_;
};

// Rows of a sparse matrix and the like, divided as the first axis of an array or by a list of owners, whose name is
// `like`: see pcm_rows in pcm.h. Addresses are good until the ranks change or the rows are resized.
class rows {
  public:
    // One size of an entry for each column, for example {sizeof(int), sizeof(double)}.
    rows(std::string name, const std::string &like, const std::vector<std::size_t> &entry_sizes)
        : name_(std::move(name))
    {
        detail::checked(
            pcm_rows(name_.c_str(), like.c_str(), static_cast<int>(entry_sizes.size()), entry_sizes.data()));
    }
    // A length for each row of this rank, in entries. All entries are zero then.
    void resize(const std::vector<std::size_t> &lengths)
    {
        detail::checked(pcm_rows_resize(name_.c_str(), lengths.data()));
    }
    // Row i has the entries from offsets()[i] to offsets()[i + 1].
    const std::size_t *offsets() const { return detail::found(pcm_row_offsets(name_.c_str())); }
    template <typename T> T *entries(int column) const
    {
        return static_cast<T *>(detail::found(pcm_row_entries(name_.c_str(), column)));
    }

  private:
    std::string name_;
};

// Records such as particles, each of which goes to the rank that `owner` returns when the number of ranks changes: see
// pcm_records in pcm.h. Addresses are good until the ranks change or the records are resized.
template <typename T> class records {
    static_assert(std::is_trivially_copyable<T>::value, "a record moves between processes as bytes");

  public:
    using owner_of = std::function<int(const T &record, int ranks)>;

    records(std::string name, owner_of owner) : name_(std::move(name))
    {
        auto &kept = detail::stored(std::move(owner));
        auto in_c = [](void *context, const void *record, int ranks) {
            return detail::guarded(-1, [=] {
                T one;
                std::memcpy(&one, record, sizeof one);
                return (*static_cast<owner_of *>(context))(one, ranks);
            });
        };
        detail::checked(pcm_records(name_.c_str(), sizeof(T), in_c, &kept));
    }
    std::size_t size() const
    {
        std::size_t count = 0;
        detail::found(pcm_record_data(name_.c_str(), &count));
        return count;
    }
    T *data() const
    {
        std::size_t count = 0;
        return static_cast<T *>(detail::found(pcm_record_data(name_.c_str(), &count)));
    }
    T *begin() const { return data(); }
    T *end() const { return data() + size(); }
    // Keeps those that there are, the first ones; new ones are zero.
    void resize(std::size_t count) { detail::found(pcm_records_resize(name_.c_str(), count)); }
    void push_back(const T &record)
    {
        std::size_t count = size();
        resize(count + 1);
        data()[count] = record;
    }

  private:
    std::string name_;
};

// ---- values ----------------------------------------------------------------------------------------------------

// Registers a variable that has the same value on every rank. It must live as long as the session is used.
template <typename T> void register_value(const std::string &name, T &variable)
{
    static_assert(std::is_trivially_copyable_v<T>, "values travel as bytes: no pointers, no constructors");
    detail::checked(pcm_value(name.c_str(), &variable, sizeof variable));
}

// A value that has the same contents on every rank, in memory that lives long enough by itself. Copies share it.
template <typename T> class value {
  public:
    value(const std::string &name, T initial) : kept_(&detail::stored(std::move(initial)))
    {
        register_value(name, *kept_);
    }
    T &operator*() noexcept { return *kept_; }
    const T &operator*() const noexcept { return *kept_; }
    T *operator->() noexcept { return kept_; }
    const T *operator->() const noexcept { return kept_; }

  private:
    T *kept_;
};

// A value of each rank, which moves with it. merge(mine, other) takes the value of a rank that ends; without it the
// job cannot shrink. split(mine, left) takes a share for a new rank off `mine`; `left` new ranks still get one, this
// one included, so an equal share is mine / (left + 1). Without it a new rank keeps what it registered.
template <typename T> class value_per_rank {
  public:
    using merge_function = std::function<void(T &mine, const T &other)>;
    using split_function = std::function<T(T &mine, int left)>;

    value_per_rank(const std::string &name, T initial, merge_function merge = {}, split_function split = {})
        : kept_(&detail::stored(Kept{std::move(initial), std::move(merge), std::move(split)}))
    {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as bytes: no pointers, no constructors");
        detail::checked(pcm_value_per_rank(name.c_str(), &kept_->own, sizeof(T), kept_->merge ? merge_in_c : nullptr,
                                           kept_->split ? split_in_c : nullptr, kept_));
    }
    T &operator*() noexcept { return kept_->own; }
    const T &operator*() const noexcept { return kept_->own; }
    T *operator->() noexcept { return &kept_->own; }
    const T *operator->() const noexcept { return &kept_->own; }

  private:
    struct Kept {
        T own;
        merge_function merge;
        split_function split;
    };
    // The memory that the library passes need not be aligned for T.
    static int merge_in_c(void *context, void *mine, const void *other) noexcept
    {
        return detail::guarded(1, [=] {
            T own, leaving;
            std::memcpy(&own, mine, sizeof own);
            std::memcpy(&leaving, other, sizeof leaving);
            static_cast<Kept *>(context)->merge(own, leaving);
            std::memcpy(mine, &own, sizeof own);
            return 0;
        });
    }
    static int split_in_c(void *context, void *mine, void *share, int left) noexcept
    {
        return detail::guarded(1, [=] {
            T own;
            std::memcpy(&own, mine, sizeof own);
            T given = static_cast<Kept *>(context)->split(own, left);
            std::memcpy(mine, &own, sizeof own);
            std::memcpy(share, &given, sizeof given);
            return 0;
        });
    }

    Kept *kept_;
};

// ---- hooks and custom data -------------------------------------------------------------------------------------

// Called on every rank after the ranks have changed. What it throws, session::iterate throws.
inline void on_change(std::function<void()> hook)
{
    detail::checked(pcm_on_change(detail::run_hook, &detail::stored(std::move(hook))));
}

// Called on a rank that leaves, before it ends; it must not communicate. What it throws is lost.
inline void on_exit(std::function<void()> hook)
{
    detail::checked(pcm_on_exit([](void *kept) { detail::run_hook(kept); }, &detail::stored(std::move(hook))));
}

// Says on which numbers of ranks the program can run, before the session.
inline void possible_ranks(std::function<bool(int ranks)> is_possible)
{
    auto call = [](void *context, int ranks) {
        return detail::guarded(0, [=] { return int{(*static_cast<std::function<bool(int)> *>(context))(ranks)}; });
    };
    pcm_result result = pcm_possible_ranks(call, &is_possible);
    detail::checked(detail::of_a_hook() ? PCM_ERROR_HOOK : result);
}

// Output of a pack hook.
class packer {
  public:
    explicit packer(pcm_packer *own) : own_(own) {}
    void append(const void *data, std::size_t bytes) { detail::checked(pcm_pack(own_, data, bytes)); }
    template <typename T> void append(const std::vector<T> &all)
    {
        static_assert(std::is_trivially_copyable_v<T>, "data travels as bytes: no pointers, no constructors");
        append(all.data(), all.size() * sizeof(T));
    }

  private:
    pcm_packer *own_;
};

// What old rank `from` packed for this one; valid until the hook returns.
struct part {
    int from;
    const std::byte *data;
    std::size_t size;

    template <typename T> std::vector<T> as() const
    {
        static_assert(std::is_trivially_copyable_v<T>, "data travels as bytes: no pointers, no constructors");
        std::vector<T> all(size / sizeof(T));
        if (!all.empty())
            std::memcpy(all.data(), data, all.size() * sizeof(T));
        return all;
    }
};

// The hooks of data that only the program can interpret: see pcm_custom_hooks in pcm.h.
struct custom_hooks {
    std::function<void(int to, int ranks, packer &)> pack;
    std::function<void(const std::vector<part> &)> unpack;
    std::function<std::vector<int>(int from, int ranks_before, int ranks_after)> targets{};
};

inline void custom(const std::string &name, custom_hooks hooks)
{
    auto &kept = detail::stored(std::move(hooks));
    pcm_custom_hooks in_c{};
    in_c.context = &kept;
    in_c.pack = [](void *context, int to, int ranks, pcm_packer *output) {
        return detail::guarded(1, [=] {
            packer one(output);
            static_cast<custom_hooks *>(context)->pack(to, ranks, one);
            return 0;
        });
    };
    in_c.unpack = [](void *context, const pcm_part *parts, std::size_t count) {
        return detail::guarded(1, [=] {
            std::vector<part> all;
            for (std::size_t i = 0; i < count; i++)
                all.push_back({parts[i].from, static_cast<const std::byte *>(parts[i].data), parts[i].size});
            static_cast<custom_hooks *>(context)->unpack(all);
            return 0;
        });
    };
    if (kept.targets)
        in_c.targets = [](void *context, int from, int before, int after, int *targets) {
            return detail::guarded(-1, [=] {
                std::vector<int> all = static_cast<custom_hooks *>(context)->targets(from, before, after);
                if (all.size() > static_cast<std::size_t>(after))
                    throw std::length_error("a targets hook named more ranks than there are");
                std::copy(all.begin(), all.end(), targets);
                return static_cast<int>(all.size());
            });
        };
    detail::checked(pcm_custom(name.c_str(), &in_c));
}

// ---- the session -----------------------------------------------------------------------------------------------

// True in a process that joined a running job.
inline bool joining() noexcept { return pcm_joining() == 1; }

// True if a daemon started this program.
inline bool active()
{
    int is_active = 0;
    detail::checked(pcm_active(&is_active));
    return is_active == 1;
}

inline std::string version() { return pcm_version(); }

// The time in which ranks may change: make it when all data is registered, once, and end it before MPI_Finalize. In a
// process that joins, the constructor returns when the data is in place. The end waits for nothing, so an exception
// may leave it.
class session {
  public:
    session() { detail::checked(began(pcm_start())); }
    explicit session(std::error_code &code) noexcept { code = make_error_code(began(pcm_start())); }
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    // The top of an iteration: true if ranks joined, left or moved. Does not return on a rank that leaves; destructors
    // do not run there.
    bool iterate()
    {
        bool is_changed = false;
        detail::checked(detail::iterated(is_changed));
        return is_changed;
    }
    bool iterate(std::error_code &code) noexcept
    {
        bool is_changed = false;
        code = make_error_code(detail::iterated(is_changed));
        detail::of_a_hook() = nullptr;
        return is_changed;
    }

    // Begins a checkpoint in files.
    void checkpoint() { detail::checked(pcm_checkpoint()); }
    void checkpoint(std::error_code &code) noexcept { code = make_error_code(pcm_checkpoint()); }
    // Waits until it is on disk.
    void checkpoint_wait() { detail::checked(pcm_checkpoint_wait()); }
    void checkpoint_wait(std::error_code &code) noexcept { code = make_error_code(pcm_checkpoint_wait()); }

    // Asks for a number of ranks.
    void request(int ranks) { detail::checked(pcm_request(ranks)); }
    void request(int ranks, std::error_code &code) noexcept { code = make_error_code(pcm_request(ranks)); }
    // Declares how many iterations remain.
    void remaining(long long iterations) { detail::checked(pcm_remaining(iterations)); }
    void remaining(long long iterations, std::error_code &code) noexcept
    {
        code = make_error_code(pcm_remaining(iterations));
    }

  private:
    static pcm_result began(pcm_result result)
    {
        detail::layout()++;
        return result;
    }
};

} // namespace pcm

#endif // PCM_HPP
