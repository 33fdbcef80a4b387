// Programs in C++ that hang, one mistake per mode, each at a line that a comment names: hangs MODE [FILE]. Built with
// -O2 and without frame pointers. Must never know about pcm.
#include <mpi.h>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static int rank;
static volatile double sink;

static APART void meet()
{
    MPI_Barrier(MPI_COMM_WORLD); // at: meet
    sink = sink + 1;
}

namespace store {

// A lock that is taken again while it is held.
template <typename T> class Cache {
public:
    APART void insert(T value)
    {
        std::lock_guard<std::mutex> guard(lock);
        if (values.empty())
            refill(value);
        values.push_back(value);
    }

private:
    APART void refill(T value)
    {
        std::lock_guard<std::mutex> guard(lock); // at: store::Cache<int>::refill
        values.push_back(value);
    }

    std::mutex lock;
    std::deque<T> values;
};

// A consumer without a producer.
class Queue {
public:
    APART int pop()
    {
        std::unique_lock<std::mutex> guard(lock);
        filled.wait(guard, [this] { return !values.empty(); }); // at: store::Queue::pop
        return values.front();
    }

private:
    std::mutex lock;
    std::condition_variable filled;
    std::deque<int> values;
};

} // namespace store

// A worker that is never asked to end, behind a virtual function.
struct Solver {
    virtual ~Solver() = default;
    virtual void finish() = 0;
};

struct Threaded final : Solver {
    std::thread worker{[] {
        for (;;)
            pause();
    }};

    APART void finish() override
    {
        worker.join(); // at: Threaded::finish
        sink = sink + 1;
    }
};

static APART int await_answer()
{
    std::promise<int> promise;
    std::future<int> answer = promise.get_future();
    int value = answer.get(); // at: await_answer
    sink = sink + value;
    return value;
}

static std::atomic<bool> is_ready{false};

static APART void spin()
{
    while (!is_ready.load(std::memory_order_acquire)) // at: spin
        ;
}

static APART std::string read_settings(const char *path)
{
    std::ifstream file(path, std::ios::in | std::ios::out);
    std::string line;
    std::getline(file, line); // at: read_settings
    sink = sink + static_cast<double>(line.size());
    return line;
}

// A reduction in a destructor, which the others do not call.
struct Timer {
    APART ~Timer()
    {
        double own = 1, longest = 0;
        MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); // at: Timer::~Timer
        sink = sink + longest;
    }
};

static APART void measure()
{
    Timer timer;
    sink = sink + 1;
}

// An error that one rank handles by a message for which the others do not wait.
static APART void recover()
{
    int code = 0;
    MPI_Recv(&code, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at: recover
    sink = sink + code;
}

static APART void fail()
{
    try {
        throw std::runtime_error("no convergence");
    } catch (const std::runtime_error &) {
        recover();
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const std::string mode = argc > 1 ? argv[1] : "", path = argc > 2 ? argv[2] : "";
    const std::map<std::string, std::function<void()>> away = {
        {"cache", [] { store::Cache<int>().insert(1); }},
        {"queue", [] { sink = store::Queue().pop(); }},
        {"worker", [] { std::unique_ptr<Solver>(new Threaded)->finish(); }},
        {"future", [] { await_answer(); }},
        {"atomic", spin},
        {"stream", [&] { read_settings(path.c_str()); }},
        {"destructor", measure},
        {"exception", fail},
    };
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        away.at(mode)();
    meet();
    MPI_Finalize();
    return 0;
}
