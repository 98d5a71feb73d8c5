//===- Socket.h - TCP sockets that clean up, with waits that end ------------------------------===//
#ifndef RUNTIME_COMM_TCP_SOCKET_H
#define RUNTIME_COMM_TCP_SOCKET_H

#include "runtime/support/Status.h"
#include <chrono>
#include <string>
#include <sys/socket.h>

namespace omnibal::rt {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string text() const;
  bool isLoopback() const;
};

/// A descriptor that is closed with its owner.
class Socket {
public:
  using Time = std::chrono::steady_clock;

  explicit Socket(int descriptor = -1) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(other.descriptor) { other.descriptor = -1; }
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();
  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }

  /// Listens on all addresses of this machine; port 0 takes a free one. `chosen` gets the port.
  static Result<Socket> listen(int port, int &chosen);
  /// Tries again until the name is known and somebody listens there; DeadlineExceeded holds why
  /// nobody could be reached.
  /// Unavailable if this process can have no more connections.
  static Result<Socket> connect(const std::string &host, int port, Time::time_point until);
  /// DeadlineExceeded if nobody came; Unavailable if this process can have no more connections.
  Result<Socket> accept(Time::time_point until) const;

  /// Sends all bytes, or returns false if the connection is lost or the time is over.
  bool sendAll(const void *data, size_t bytes, Time::time_point until) const;
  bool receiveAll(void *data, size_t bytes, Time::time_point until) const;
  SocketAddress peer() const;

private:
  int descriptor;
};

} // namespace omnibal::rt
#endif // RUNTIME_COMM_TCP_SOCKET_H
