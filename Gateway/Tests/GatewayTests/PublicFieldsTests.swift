import CountdownClient
import Testing

@testable import Gateway

@Suite struct PublicFieldsTests {
  private func page(_ json: String, of kind: CountdownEvent.Kind) throws -> String {
    try CountdownEvent(channel: "\(kind):k", message: json.utf8).fields
      .page(alias: "a", of: kind).json
  }

  @Test
  func aPageSeesListedFieldsAlsoOfRecordsInListsAndNothingElse() throws {
    let json = #"""
      {"event":"updated","key":"k","owner":"scope:s","status":"s","new":1,"status_base64":"x",\#
      "owner_base64":"x","holds":[{"kind":"info","request":"r","owner":"o","request_base64":"x",\#
      "new":{"kind":"info"}},7],"request":"r","mask":{"status":"s"}}
      """#
    let expected = #"""
      {"alias":"a","event":"updated","holds":[{"kind":"info"},7],"mask":{},"status":"s",\#
      "status_base64":"x"}
      """#
    #expect(try page(json, of: .hud) == expected)
  }

  @Test
  func aNameMayBePublicForOneKindOnly() throws {
    let json = #"{"event":"refused","limit":5,"remaining":1}"#
    #expect(
      try page(json, of: .throttle) == #"{"alias":"a","event":"refused","limit":5,"remaining":1}"#)
    #expect(try page(json, of: .countdown) == #"{"alias":"a","event":"refused","remaining":1}"#)
  }

  @Test
  func everyKindHasAListAndAnUnknownOneShowsNothing() throws {
    for kind in CountdownEvent.Kind.allCases where kind != .connection {
      #expect(PublicFields.names(of: kind).contains("state"), "\(kind)")
    }
    #expect(try page(#"{"event":"x","state":"x"}"#, of: "new") == #"{"alias":"a"}"#)
  }
}
