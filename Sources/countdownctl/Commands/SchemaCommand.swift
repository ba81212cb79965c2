import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Countdowns
import Wire

struct SchemaCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "schema",
    abstract: "Print the commands, views, events, errors and settings as JSON.",
    discussion: """
      Clients and docs are made from it; no daemon is needed.

      Examples:
        countdownctl schema | jq '.commands[].name'
        countdownctl schema --config > countdownd.schema.json
      """)

  @Flag(help: "Print a JSON Schema of the configuration files, for editors.") var config = false
  @Flag(help: "Print a JSON Schema of the events.") var events = false

  func validate() throws {
    if config, events { throw ValidationError("--config and --events exclude each other") }
  }

  func run() {
    let everything = RESPValue.map(DaemonSchema.parts + [.of("settings", Configuration.schema)])
    let schema =
      config ? Configuration.jsonSchema : events ? DaemonSchema.jsonSchemaOfEvents : everything
    Output.line(schema.json)
  }
}
