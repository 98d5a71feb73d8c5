//===- Watch.h - Waiting for many sockets at once ---------------------------------------------===//
//
// One wait costs time for the sockets at which something happens, not for all that are watched.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_TCP_WATCH_H
#define RUNTIME_COMM_TCP_WATCH_H

#include "runtime/comm/tcp/Socket.h"
#include <chrono>
#include <span>
#include <sys/epoll.h>
#include <vector>

namespace omnibal::rt::tcp {

class Watch {
public:
  /// Throws std::system_error where the system has no descriptor left, as its other members do
  /// where it has no memory left.
  Watch();

  /// From now on `events` (EPOLLIN, EPOLLOUT) of the descriptor are told with `id`. A descriptor
  /// that is closed is no longer watched.
  void set(int descriptor, int id, uint32_t events);

  /// Waits until something happens, but not longer; returns it, until the next call. Errors and
  /// hang-ups are always told.
  std::span<const epoll_event> wait(std::chrono::milliseconds longest);
  static int idOf(const epoll_event &event) { return event.data.fd; }

private:
  Socket epoll;
  std::vector<epoll_event> came;
};

} // namespace omnibal::rt::tcp
#endif // RUNTIME_COMM_TCP_WATCH_H
