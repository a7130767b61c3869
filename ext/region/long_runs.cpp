// The thread that asks for the GIL.
//
// Only a thread that waits for the GIL can make the one that has it look up: what the interpreter looks at may not be
// set otherwise (with a request and nobody who waits, giving up the GIL never ends; pending calls concern the main
// thread only, and up to 3.12 are not seen if another thread adds them). The thread is started by the first run that
// is watched, and sleeps without a timer while there are none.
#include "ext/region/long_runs.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <Python.h>

#include <atomic>

#include "capture/py/interpreter.h"

namespace framejit::ext::region {

namespace {

constexpr long kPeriod = 5'000'000;  // nanoseconds; as long as the interpreter lets a thread wait for the GIL
constexpr int kQuietPeriods = 20;
constexpr std::size_t kStackBytes = 1 << 18;

std::atomic<uint64_t> running{0}, asked{0};  // numbers of runs; 0: none
std::atomic<bool> idle{true};
sem_t wake;
bool started = false;  // with the GIL
uint64_t runs = 0;     // with the GIL

/// Ends by pthread_exit if the interpreter ends meanwhile: no object may be alive here whose end runs code.
void ask(uint64_t run) {
  if (!Py_IsInitialized() || capture::is_finalizing()) return;
  asked.store(run, std::memory_order_relaxed);
  const PyGILState_STATE before = PyGILState_Ensure();
  PyGILState_Release(before);
}

void* watch(void*) {
  for (;;) {
    while (sem_wait(&wake) != 0) {
    }
    uint64_t seen = 0;
    for (int quiet = 0; quiet < kQuietPeriods;) {
      const timespec period{0, kPeriod};
      nanosleep(&period, nullptr);
      const uint64_t run = running.load(std::memory_order_acquire);
      quiet = run == 0 ? quiet + 1 : 0;
      if (run != 0 && run == seen) ask(run);
      seen = run;
    }
    idle.store(true);
    // A run that has begun just now did not wake it.
    if (running.load() != 0 && idle.exchange(false)) sem_post(&wake);
  }
  return nullptr;
}

void start() {
  static const bool prepared = [] {
    sem_init(&wake, 0, 0);
    // A child has no such thread.
    pthread_atfork(nullptr, nullptr, [] {
      sem_init(&wake, 0, 0);
      started = false;
      idle.store(true);
    });
    return true;
  }();
  static_cast<void>(prepared);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  started = pthread_create(&thread, &attributes, watch, nullptr) == 0;
  pthread_attr_destroy(&attributes);
}

}  // namespace

LongRun::LongRun(bool watched) : number_(watched ? ++runs : 0) {
  if (!watched) return;
  running.store(number_);
  if (!idle.load() || !idle.exchange(false)) return;
  if (!started) start();
  if (started) sem_post(&wake);
  else idle.store(true);
}

LongRun::~LongRun() {
  if (number_ != 0) running.store(0, std::memory_order_release);
}

bool LongRun::was_asked() const { return number_ != 0 && asked.load(std::memory_order_relaxed) == number_; }

}  // namespace framejit::ext::region
