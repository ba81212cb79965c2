import CountdownClient
import Testing

@testable import Gateway

@Suite struct PlaceTests {
  private func event(_ seq: Int, _ position: String? = nil, name: String = "set") throws
    -> CountdownEvent
  {
    let more = position.map { #","position":"\#($0)""# } ?? ""
    let json = #"{"event":"\#(name)","seq":\#(seq)\#(more)}"#
    return try CountdownEvent(channel: "timer:t", message: json.utf8)
  }

  @Test
  func withoutAFleetAnIDIsANumber() throws {
    var place = Place()
    #expect(place.text == nil)
    place.log = Place.log(in: "41")
    for seq in [42, 44] { place.pass(try event(seq)) }
    #expect(place.text == "44")
  }

  @Test
  func inAFleetAnIDHasTheLogAndTheNewestPositionOfEachPartition() throws {
    var place = Place()
    place.log = Place.log(in: "7.41-3.1.5.6")
    place.pass(try event(42, "3.1.6.9.0"))
    place.pass(try event(0, "12.1.1.1"))
    place.pass(try event(43, "3.1.7.8", name: "snapshot"))
    #expect(place.text == "7.43-12.1.1.1-3.1.7.8")
  }

  @Test
  func aSnapshotIncludesEventsUpToItsPosition() throws {
    let point = SnapshotPoint(try event(50, "3.1.7.8", name: "snapshot"))
    for position in ["3.1.6.9", "3.1.7.8.0", "3.2.9.1"] {
      #expect(point.includes(try event(0, position)), "\(position)")
    }
    #expect(!point.includes(try event(0, "3.1.8.1.0")))
    #expect(point.includes(try event(50)))
    #expect(!point.includes(try event(51)))
    #expect(!SnapshotPoint(try event(50)).includes(try event(51, "3.1.1.1")))
  }
}
