//===- NetworkFaults.cpp - A network that is cut, loses everything, is slow or answers late ---===//
//
// A library for LD_PRELOAD. What it does to the process's own TCP sockets the kernel does for it,
// and no privileges are needed. Signals say when a fault begins:
//
//   SIGRTMIN      every connection is reset
//   SIGRTMIN + 1  the process vanishes: from now on the kernel drops what comes for its sockets,
//                 nothing that it sends goes out, and its end closes no connection
//
// Variables of the environment say what is so from the beginning:
//
//   NETWORK_FAULTS_RATE   bytes a second that each connection carries
//   NETWORK_FAULTS_NAME   a name of this machine
//   NETWORK_FAULTS_AFTER  so many seconds after the process's start that name becomes known
//   NETWORK_FAULTS_LOOKUP each lookup of it takes so many seconds
//
//===-------------------------------------------------------------------------------------------===//
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/filter.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point begin = Clock::now();

/// Descriptors of a run are below.
constexpr int mostDescriptors = 4096;
/// Whoever keeps the connections of a process that vanished open ends after this.
constexpr unsigned keptSeconds = 60;

std::atomic<bool> vanished = false;

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

double number(const char *name, double otherwise) {
  const char *value = std::getenv(name);
  return value && *value ? std::atof(value) : otherwise;
}

bool isTcp(int descriptor) {
  int domain = 0, type = 0;
  socklen_t length = sizeof domain;
  return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
         getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
         (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM;
}

void dropWhatComes(int descriptor) {
  sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &nothing};
  setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/// Connecting to no address ends a connection with a reset. Listeners stay.
void cut(int) {
  const int error = errno;
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  for (int descriptor = 0; descriptor < mostDescriptors; ++descriptor) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (isTcp(descriptor) &&
        getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && !listens)
      syscall(SYS_connect, descriptor, &nowhere, sizeof nowhere);
  }
  errno = error;
}

/// A child keeps the sockets, and nothing else, so that nobody is told of this process's end.
void vanish(int) {
  const int error = errno;
  vanished = true;
  for (int descriptor = 0; descriptor < mostDescriptors; ++descriptor)
    if (isTcp(descriptor))
      dropWhatComes(descriptor);
  if (syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
    for (int descriptor = 0; descriptor < mostDescriptors; ++descriptor)
      if (!isTcp(descriptor))
        syscall(SYS_close, descriptor);
    timespec rest{keptSeconds, 0};
    syscall(SYS_nanosleep, &rest, nullptr);
    syscall(SYS_exit_group, 0);
  }
  errno = error;
}

[[gnu::constructor]] void listenToSignals() {
  for (auto [kind, action] : {std::pair{SIGRTMIN, &cut}, std::pair{SIGRTMIN + 1, &vanish}}) {
    struct sigaction how{};
    how.sa_handler = action;
    how.sa_flags = SA_RESTART;
    sigaction(kind, &how, nullptr);
  }
}

void slowDown(int descriptor) {
  const auto rate = static_cast<unsigned>(number("NETWORK_FAULTS_RATE", 0));
  if (rate > 0 && isTcp(descriptor)) {
    setsockopt(descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    // Otherwise seconds of it lie in buffers, which a slow line does not have.
    const int buffer = static_cast<int>(rate / 8);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  }
}

} // namespace

extern "C" int connect(int descriptor, const sockaddr *address, socklen_t length) {
  slowDown(descriptor);
  if (vanished && isTcp(descriptor))
    dropWhatComes(descriptor);
  return next<int (*)(int, const sockaddr *, socklen_t)>("connect")(descriptor, address, length);
}

extern "C" int accept4(int descriptor, sockaddr *address, socklen_t *length, int flags) {
  const int came = next<int (*)(int, sockaddr *, socklen_t *, int)>("accept4")(descriptor, address,
                                                                               length, flags);
  if (came >= 0)
    slowDown(came);
  return came;
}

extern "C" ssize_t send(int descriptor, const void *data, size_t bytes, int flags) {
  if (vanished && isTcp(descriptor))
    return static_cast<ssize_t>(bytes);
  return next<ssize_t (*)(int, const void *, size_t, int)>("send")(descriptor, data, bytes, flags);
}

extern "C" int getaddrinfo(const char *name, const char *service, const addrinfo *hints,
                           addrinfo **found) {
  const char *ours = std::getenv("NETWORK_FAULTS_NAME");
  if (ours && name && std::strcmp(name, ours) == 0) {
    if (hints && (hints->ai_flags & AI_NUMERICHOST))
      return EAI_NONAME;
    std::this_thread::sleep_for(std::chrono::duration<double>(number("NETWORK_FAULTS_LOOKUP", 0)));
    if (Clock::now() - begin < std::chrono::duration<double>(number("NETWORK_FAULTS_AFTER", 0)))
      return EAI_NONAME;
    name = "127.0.0.1";
  }
  return next<int (*)(const char *, const char *, const addrinfo *, addrinfo **)>("getaddrinfo")(
      name, service, hints, found);
}
