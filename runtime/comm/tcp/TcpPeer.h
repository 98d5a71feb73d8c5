//===- TcpPeer.h - The connection to one other rank -------------------------------------------===//
//
// Messages are sent only to receivers that wait: a receive tells the sender its sizes (Ready), and
// the sender answers with the bytes, in chunks between which other frames may go. So a send that
// nobody receives never ends, however small it is, and bytes go directly from the sender's memory
// to the receiver's.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_TCP_TCPPEER_H
#define RUNTIME_COMM_TCP_TCPPEER_H

#include "runtime/comm/tcp/TcpMesh.h"
#include <deque>
#include <map>
#include <memory>

namespace omnibal::rt::tcp {

/// Question: what the rank does, which an Activity answers.
enum class FrameKind : uint32_t { Ready, Chunk, Mismatch, Abort, Activity, Question, Bye };

struct FrameHeader {
  FrameKind kind;
  uint32_t code = 0; ///< Abort: of the status; Activity: milliseconds since the rank moved on
  int64_t tag = 0;
  int64_t id = 0;    ///< the receive's, chosen by the receiver
  int64_t bytes = 0; ///< of what follows
};

/// One side of a message.
struct Operation {
  std::vector<Communicator::Piece> pieces;
  int peer = 0;
  int64_t tag = 0;
  int64_t id = 0; ///< on the receiver's side
  int64_t total = 0, moved = 0;
  bool done = false;
  Status failure;

  /// The contiguous memory at `moved`.
  Communicator::Piece rest() const;
};
using OperationPointer = std::shared_ptr<Operation>;

/// What comes of reading and writing.
struct News {
  bool finished = false; ///< some operation ended
  bool moved = false;    ///< bytes of a message went or came
  bool aborted = false;  ///< the other rank says why
  bool asked = false;    ///< the other rank wants to know what this one does
  bool told = false;     ///< the other rank says what it does
  Status reason;
};

/// One thread at a time uses it.
class Peer {
public:
  /// What has been started before goes out from here on.
  void open(Socket made) {
    socket = std::move(made);
    watched = 0;
  }
  bool isOpen() const { return static_cast<bool>(socket); }
  int descriptor() const { return socket.get(); }

  void send(OperationPointer operation);
  void receive(OperationPointer operation);
  void say(FrameKind kind, uint32_t code, const std::string &text);

  /// Writes what the socket takes. Reads what is there. False: the connection is lost.
  bool write(News &news);
  bool read(News &news);
  bool wantsToWrite() const { return !out.empty() || !sending.empty(); }
  /// Forgets all operations; a chunk that has begun is copied and still sent.
  void cancel();
  void close();

  std::string name;      ///< address, for messages
  std::string activity;  ///< last heard
  int64_t timesTold = 0; ///< that something was heard of it
  int64_t toldStep = -1; ///< the step that this rank last said it is in
  /// When it, or whom it waits for, last moved on, as far as is known here.
  Socket::Time::time_point progress;
  bool ended = false;   ///< it has said Bye
  uint32_t watched = 0; ///< events of its socket that are waited for

private:
  struct Waiting { ///< a Ready whose send has not come
    int64_t id;
    std::vector<int64_t> sizes;
  };
  struct Frame {
    std::string bytes;
    size_t written = 0;
    OperationPointer chunk = nullptr; ///< whose next bytes follow
    int64_t left = 0;                 ///< of them
  };

  void start(const OperationPointer &operation, const Waiting &ready);
  void queue(const FrameHeader &header, const void *body);
  void queueChunk();
  /// Writes bytes of the first frame and returns their number: 0 if the socket takes none, -1 if it
  /// is lost.
  int64_t writeSome(News &news);
  bool readSome(News &news, int64_t &bytes);
  bool take(News &news);
  bool takeReady();

  Socket socket;
  std::map<int64_t, std::deque<OperationPointer>> sends; ///< by tag, not yet asked for
  std::map<int64_t, std::deque<Waiting>> asked;          ///< by tag
  std::deque<OperationPointer> sending;
  std::map<int64_t, OperationPointer> receives; ///< by id
  int64_t nextId = 0;
  std::deque<Frame> out;

  FrameHeader header{FrameKind::Bye};
  int64_t headerRead = 0, bodyRead = 0;
  std::vector<char> body;
};

} // namespace omnibal::rt::tcp
#endif // RUNTIME_COMM_TCP_TCPPEER_H
