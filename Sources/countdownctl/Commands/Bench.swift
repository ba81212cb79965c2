import ArgumentParser
import CountdownClient
import Glibc

struct Bench: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Load the daemon with countdowns and measure its speed.",
    discussion: """
      Mixes:
        start         start countdowns
        start-cancel  start them and cancel each again
        get           get each once; they are started before, unmeasured
        watched       let them tick while one client listens to all of them
        burst         all become ready at the same moment
        spread        each becomes ready at another moment within --due

      Watched, burst and spread receive every event and compare it with the clock of this machine: \
      none may be early, none may be lost. Meanwhile another client pings the daemon 100 times a \
      second.

      Latencies are measured from when a command is sent; with --rate, from when it should have \
      been sent, so that a daemon that stalls does not look fast.

      The keys begin with bench: and a random number. All are cancelled at the end, also when the \
      run is interrupted.

      The run fills the event log: do not load a daemon in use.

      Exit status 1: an event was early or lost, or a start was not accepted. 130: interrupted.

      Examples:
        countdownctl bench
        countdownctl bench -n 1000000 --connections 50 --pipeline 16
        countdownctl bench --mix start-cancel --rate 20000
        countdownctl bench --mix burst -n 100000 --due 5s
        countdownctl bench --mix watched -n 100000 --steps 10 --pipeline 16
        countdownctl bench --mix spread --json | jq .events.late_us.p99
      """)

  @OptionGroup var options: BenchOptions
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let run = BenchRun(options, path: session.path, client: session.client)
    let signals = Signals([SIGINT, SIGTERM, SIGHUP])
    let obeying = Task { await Self.obey(signals, run) }
    let drawing = ProgressBar.isWanted ? Task { await Self.draw(run) } : nil
    let report: BenchReport
    do {
      report = try await run.run()
    } catch {
      drawing?.cancel()
      await drawing?.value
      throw error
    }
    drawing?.cancel()
    await drawing?.value
    obeying.cancel()
    global.show(report.json, report.lines(style: session.style, width: Output.width))
    if report.isInterrupted { throw ExitCode(130) }
    if !report.problems.isEmpty { throw ExitCode.refused }
  }

  /// Ends the test on the first signal, cleaning up; a second signal ends the process at once.
  private static func obey(_ signals: Signals, _ run: BenchRun) async {
    for await _ in signals.received {
      guard await run.isInterrupted else {
        await run.interrupt()
        continue
      }
      Output.error("not cleaned up: \(run.prefix)*", code: "INTERRUPTED")
      _exit(130)
    }
  }

  private static func draw(_ run: BenchRun) async {
    let clock = ContinuousClock()
    var last = (step: "", done: 0, at: clock.now)
    while !Task.isCancelled {
      let (step, done, total) = await run.progress()
      let seconds = (clock.now - last.at).inSeconds
      let rate = step == last.step && seconds > 0 ? Double(max(0, done - last.done)) / seconds : 0
      last = (step, done, clock.now)
      let fraction = total > 0 ? Double(done) / Double(total) : 0
      ProgressBar.draw(
        ProgressBar.text(step, fraction, detail: rate > 0 ? "\(grouped(Int(rate)))/s" : ""))
      try? await Task.sleep(for: .milliseconds(200))
    }
    ProgressBar.clear()
  }
}
