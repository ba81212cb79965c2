import CBenchmarks
import Glibc
import TimerWheel

/// The event loop. Each batch has the same phases: wait, read and execute, write the log, send the
/// replies, expire due countdowns.
struct Server: ~Copyable {
  /// The size of a connection's input buffer, in bytes. No reply is longer than its request, so the
  /// output buffer has the same size.
  private static let room = 64 << 10
  private static let maximumEvents = 512

  private struct Connection {
    var input: Bytes
    var output: Bytes
    /// The number of input bytes not executed yet.
    var waiting = 0
    var toSend = 0
  }

  private let listener: CInt
  private let poller: CInt
  private let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: maximumEvents)
  /// Connections by file descriptor.
  private let connections = UnsafeMutablePointer<Connection>.allocate(capacity: 1 << 16)
  /// Connections with replies to send.
  private let replying = UnsafeMutablePointer<CInt>.allocate(capacity: maximumEvents)
  private var countdowns = Countdowns()
  private var log: Log

  init(path: String, log: consuming Log) {
    self.log = log
    unlink(path)
    let listener = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, length) }
    }
    guard bound == 0, listen(listener, 4_096) == 0 else { fail(path) }
    self.listener = listener
    poller = epoll_create1(0)
    watch(listener)
  }

  private func watch(_ descriptor: CInt) {
    var event = epoll_event()
    event.events = EPOLLIN.rawValue
    event.data.fd = descriptor
    guard epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) == 0 else { fail("epoll_ctl") }
  }

  mutating func run() -> Never {
    while true {
      let count = epoll_wait(
        poller, events, CInt(Self.maximumEvents), countdowns.millisecondsToSleep())
      guard count >= 0 else { fail("epoll_wait") }
      countdowns.beginBatch()
      var replies = 0
      for event in 0..<Int(count) {
        let descriptor = events[event].data.fd
        if descriptor == listener {
          acceptAll()
        } else if serve(connections + Int(descriptor), descriptor) {
          replying[replies] = descriptor
          replies += 1
        }
      }
      log.commit()
      for reply in 0..<replies { send(connections + Int(replying[reply]), replying[reply]) }
      countdowns.expireDue()
    }
  }

  private func acceptAll() {
    while true {
      let descriptor = accept4(listener, nil, nil, CInt(SOCK_NONBLOCK.rawValue))
      if descriptor < 0 { return }
      connections[Int(descriptor)] = Connection(
        input: .allocate(capacity: Self.room), output: .allocate(capacity: Self.room))
      watch(descriptor)
    }
  }

  /// Reads input and executes the complete commands. Returns whether there are replies to send.
  private mutating func serve(
    _ connection: UnsafeMutablePointer<Connection>, _ descriptor: CInt
  ) -> Bool {
    let input = connection.pointee.input
    let came = read(
      descriptor, input + connection.pointee.waiting, Self.room - connection.pointee.waiting)
    guard came > 0 else {
      input.deallocate()
      connection.pointee.output.deallocate()
      close(descriptor)
      return false
    }
    let end = connection.pointee.waiting + came
    var reader = RequestReader(at: input, end: input + end)
    var reply = connection.pointee.output
    while let request = reader.next() {
      countdowns.execute(request, &log, &reply)
    }
    let left = reader.unread
    if left > 0, left < end { memmove(input, input + (end - left), left) }
    connection.pointee.waiting = left
    connection.pointee.toSend = reply - connection.pointee.output
    return connection.pointee.toSend > 0
  }

  private func send(_ connection: UnsafeMutablePointer<Connection>, _ descriptor: CInt) {
    let sent = write(descriptor, connection.pointee.output, connection.pointee.toSend)
    // The benchmark's clients read all replies, so a short write means that the client has ended.
    if sent != connection.pointee.toSend { shutdown(descriptor, CInt(SHUT_RDWR)) }
  }
}
