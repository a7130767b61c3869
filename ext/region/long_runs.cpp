// The thread that asks for the GIL.
//
// Only a thread that waits for the GIL can make the one that has it look up: what the interpreter looks at may not be
// set otherwise (with a request and nobody who waits, giving up the GIL never ends; pending calls concern the main
// thread only, and up to 3.12 are not seen if another thread adds them). The thread ends soon after the last run that
// is watched, because a process with several threads is warned when it forks.
#include "ext/region/long_runs.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <Python.h>

#include <atomic>

#include "capture/py/interpreter.h"

namespace framejit::ext::region {

namespace {

constexpr long kPeriod = 5'000'000;  // nanoseconds; as long as the interpreter lets a thread wait for the GIL
constexpr int kQuietPeriods = 4;
constexpr std::size_t kStackBytes = 1 << 18;

std::atomic<uint64_t> running{0}, asked{0};  // numbers of runs; 0: none
std::atomic<bool> watched{false};            // there is a thread, or there will be
uint64_t runs = 0;                           // with the GIL

/// Ends by pthread_exit if the interpreter ends meanwhile: no object may be alive here whose end runs code.
void ask(uint64_t run) {
  if (!Py_IsInitialized() || capture::is_finalizing()) return;
  asked.store(run, std::memory_order_relaxed);
  const PyGILState_STATE before = PyGILState_Ensure();
  PyGILState_Release(before);
}

void* watch(void*) {
  do {
    uint64_t seen = 0;
    for (int quiet = 0; quiet < kQuietPeriods;) {
      const timespec period{0, kPeriod};
      nanosleep(&period, nullptr);
      const uint64_t run = running.load(std::memory_order_acquire);
      quiet = run == 0 ? quiet + 1 : 0;
      if (run != 0 && run == seen) ask(run);
      seen = run;
    }
    watched.store(false);
  } while (running.load() != 0 && !watched.exchange(true));  // a run has begun that saw this thread
  return nullptr;
}

bool start() {
  static const bool prepared =
      pthread_atfork(nullptr, nullptr, [] { watched.store(false); }) == 0;  // a child has no such thread
  pthread_attr_t attributes;
  if (!prepared || pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, before;  // signals are for the program's threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, watch, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

LongRun::LongRun(bool wanted) : number_(wanted ? ++runs : 0) {
  if (!wanted) return;
  running.store(number_);
  if (!watched.load() && !watched.exchange(true) && !start()) watched.store(false);
}

LongRun::~LongRun() {
  if (number_ != 0) running.store(0, std::memory_order_release);
}

bool LongRun::was_asked() const { return number_ != 0 && asked.load(std::memory_order_relaxed) == number_; }

}  // namespace framejit::ext::region
