import Glibc

// The baseline: the least that `COUNTDOWN START key BRIEF` can cost. It has the essentials of a
// timer daemon (one thread, epoll, a table of keys, the project's timer wheel, a log) and nothing
// else: one command, no features, no limits, and it exits on any error. `make bench` compares it
// with the daemon; the difference is the cost of the daemon's features.
//
//     bare-loop SOCKET              store nothing
//     bare-loop SOCKET log          append a batch's changes to a file before its replies are sent
//     bare-loop SOCKET log sync     also wait until they are on the disk

func fail(_ what: String) -> Never {
  perror("bare-loop: \(what)")
  exit(1)
}

let arguments = CommandLine.arguments
let modes: [[String]: Log.Mode] = [[]: .nothing, ["log"]: .write, ["log", "sync"]: .sync]
guard arguments.count > 1, let mode = modes[Array(arguments.dropFirst(2))] else {
  print("usage: bare-loop SOCKET [log [sync]]")
  exit(2)
}
var server = Server(path: arguments[1], log: Log(mode, path: arguments[1] + ".log"))
server.run()
