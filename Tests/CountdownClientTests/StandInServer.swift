import Foundation
import NIOCore
import NIOPosix
import Synchronization
import Wire

/// Answers as countdownd would, from a script: what is tested is the client alone.
final class StandInServer: Sendable {
  /// Gets the words of a command, returns the bytes of the reply; nil says nothing.
  typealias Script = @Sendable ([String], Peer) -> String?

  /// One client as the server sees it.
  final class Peer: Sendable {
    let channel: any Channel
    init(channel: any Channel) { self.channel = channel }

    func push(_ text: String, whenWritten: @escaping @Sendable () -> Void = {}) {
      channel.writeAndFlush(ByteBuffer(string: text)).whenSuccess(whenWritten)
    }

    func hangUp() { channel.close(promise: nil) }
  }

  let path: String
  private let script: Script
  private let listener = Mutex<(any Channel)?>(nil)
  private let peers = Mutex<[Peer]>([])
  private let heard = Mutex<[[String]]>([])
  /// What everybody is told who comes, and then sent away with; nil lets them in.
  let refusal = Mutex<String?>(nil)
  /// Whether it accepts connections and answers nothing, not even HELLO.
  let isMute = Mutex(false)

  init(_ script: @escaping Script) async throws {
    path = NSTemporaryDirectory() + "ccl-\(UInt32.random(in: 0 ... .max)).sock"
    self.script = script
    try await listen()
  }

  deinit {
    listener.withLock { $0 }?.close(promise: nil)
    unlink(path)
  }

  /// What was asked so far of what was missed.
  var questions: [[String]] {
    heard.withLock { $0 }.filter { $0[0] == "EVENTS" }
  }

  /// Every command so far, without the handshake, and without questions for what was missed.
  var commands: [[String]] {
    heard.withLock { $0 }.filter { !["HELLO", "CLIENT", "EVENTS"].contains($0[0]) }
  }

  var connections: [Peer] { peers.withLock { $0 }.filter { $0.channel.isActive } }

  func listen() async throws {
    unlink(path)
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let peer = Peer(channel: channel)
          self.peers.withLock { $0.append(peer) }
          if let refusal = self.refusal.withLock({ $0 }) {
            return try channel.pipeline.syncOperations.addHandler(Refuser(text: refusal))
          }
          try channel.pipeline.syncOperations.addHandler(
            Handler { [weak self] words in
              guard let self else { return nil }
              self.heard.withLock { $0.append(words) }
              if self.isMute.withLock({ $0 }) { return nil }
              if words[0] == "HELLO" { return "%1\r\n$5\r\nproto\r\n:3\r\n" }
              if words[0] == "CLIENT" { return "-ERR unknown subcommand\r\n" }
              let reply = self.script(words, peer)
              if reply == nil, words[0] == "EVENTS" {
                return words[1] == "CURSOR" ? bulk("7") : missed([], cursor: "7")
              }
              if reply == nil, words[0].hasSuffix("SUBSCRIBE") {
                return words.dropFirst().map { confirmation(words[0], $0) }.joined()
              }
              return reply
            })
        }
      }
      .bind(unixDomainSocketPath: path).get()
    listener.withLock { $0 = channel }
  }

  /// Stops listening and drops everybody.
  func stop() async throws {
    try await listener.withLock { $0 }?.close().get()
    for peer in connections { try await peer.channel.close().get() }
  }

  /// Stops listening, and then hangs up.
  func vanish(_ peer: Peer) {
    listener.withLock { $0 }?.close().whenComplete { _ in peer.hangUp() }
  }

  /// How many have come so far.
  var arrivals: Int { peers.withLock { $0.count } }

  private final class Refuser: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let text: String

    init(text: String) { self.text = text }

    func channelActive(context: ChannelHandlerContext) {
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
      context.close(promise: nil)
    }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var decoder = ReplyDecoder()
    private let answer: ([String]) -> String?

    init(answer: @escaping ([String]) -> String?) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      decoder.feed(unwrapInboundIn(data).readableBytesView)
      // A request is an array of bulks, and so is a reply.
      while let request = try? decoder.next(), let words = request.elements {
        guard let reply = answer(words.compactMap(\.string)) else { continue }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: reply)), promise: nil)
      }
    }
  }
}

/// `$n text`
func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }

/// A map of texts that are RESP already.
func map(_ pairs: (String, String)...) -> String {
  "%\(pairs.count)\r\n" + pairs.map { bulk($0.0) + $0.1 }.joined()
}

/// The push that answers SUBSCRIBE and its like.
func confirmation(_ command: String, _ channel: String) -> String {
  ">3\r\n" + bulk(command.lowercased()) + bulk(channel) + ":1\r\n"
}

func message(_ channel: String, _ json: String) -> String {
  ">3\r\n" + bulk("message") + bulk(channel) + bulk(json)
}

/// The answer to `EVENTS SINCE`, of channels and lines.
func missed(
  _ events: [(String, String)], cursor: String, isComplete: Bool = true, hasMore: Bool = false
) -> String {
  map(
    ("cursor", bulk(cursor)), ("complete", isComplete ? "#t\r\n" : "#f\r\n"),
    ("more", hasMore ? "#t\r\n" : "#f\r\n"),
    ("events", "*\(events.count)\r\n" + events.map { "*2\r\n" + bulk($0) + bulk($1) }.joined()))
}

struct TimedOut: Error {}

/// Waits until a condition holds.
nonisolated(nonsending) func eventually(
  _ condition: nonisolated(nonsending) () async throws -> Bool
) async throws {
  for _ in 0..<2_000 {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(10))
  }
  throw TimedOut()
}
