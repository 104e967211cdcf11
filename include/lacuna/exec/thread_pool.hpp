#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace lacuna {

/// Scratch of one worker: grows when asked for more, never shrinks. Aligned to 64 bytes.
class worker_scratch {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64})));
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  struct free_aligned {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, free_aligned> memory_;
  std::size_t bytes_ = 0;
};

/// Threads that share loops. Iterations are handed out one at a time in ascending order, so long ones first balances best. The calling
/// thread works too. Loops from different threads run one after the other; a loop inside a loop runs on its own worker.
class thread_pool {
 public:
  /// threads >= 1 counts the caller; 0 means one per hardware thread. Throws invalid_argument if it is negative, std::system_error if a
  /// thread cannot be had.
  explicit thread_pool(int threads) {
    if (threads < 0)
      throw invalid_argument{"threads is " + std::to_string(threads) + ", expected 1 or more, or 0 for one per hardware thread"};
    int const count = threads > 0 ? threads : lacuna::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    scratch_.resize(count);
    try {
      for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~thread_pool() { stop(); }

  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;

  int size() const { return static_cast<int>(scratch_.size()); }

  /// Calls work(i, scratch) for every i in [0, count), scratch being scratch_bytes private to the call. Returns when all are done.
  /// `work` must not throw.
  template <class Work>
  void for_each(index_t count, std::size_t scratch_bytes, Work const& work) {
    if (count <= 0) return;
    if (inside_ != nullptr) {
      worker_scratch local;
      for (index_t i = 0; i < count; ++i) work(i, local.at_least(scratch_bytes));
      return;
    }
    std::lock_guard const turn{turn_};
    for (auto& s : scratch_) s.at_least(scratch_bytes);
    loop job{&work, &call<Work>, count};
    bool const shared = count > 1 && !workers_.empty();
    if (shared) publish(&job);
    run(job, 0);
    if (shared) retire(&job);
  }

 private:
  struct loop {
    void const* work;
    void (*call)(void const*, index_t, std::byte*);
    index_t count;
    std::atomic<index_t> next{0};
    int users = 0;  // workers inside, guarded by mutex_
  };

  template <class Work>
  static void call(void const* work, index_t i, std::byte* scratch) {
    (*static_cast<Work const*>(work))(i, scratch);
  }

  void stop() {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  void run(loop& job, int worker) {
    inside_ = this;
    std::byte* const scratch = scratch_[worker].at_least(0);
    for (index_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) job.call(job.work, i, scratch);
    inside_ = nullptr;
  }

  void publish(loop* job) {
    {
      std::lock_guard const lock{mutex_};
      job_ = job, ++generation_;
    }
    wake_.notify_all();
  }

  void retire(loop* job) {
    std::unique_lock lock{mutex_};
    job_ = nullptr;
    idle_.wait(lock, [&] { return job->users == 0; });
  }

  void serve(int worker) {
    std::unique_lock lock{mutex_};
    for (std::uint64_t seen = 0;;) {
      wake_.wait(lock, [&] { return stop_ || (job_ && generation_ != seen); });
      if (stop_) return;
      seen = generation_;
      loop* const job = job_;
      ++job->users;
      lock.unlock();
      run(*job, worker);
      lock.lock();
      if (--job->users == 0) idle_.notify_all();
    }
  }

  static inline thread_local thread_pool const* inside_ = nullptr;

  std::vector<worker_scratch> scratch_;
  std::mutex turn_, mutex_;
  std::condition_variable wake_, idle_;
  loop* job_ = nullptr;
  std::uint64_t generation_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;  // last: they use everything above
};

}  // namespace lacuna
