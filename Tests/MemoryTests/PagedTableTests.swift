import Memory
import Testing

@Suite struct PagedTableTests {
  private final class Thing {
    let number: UInt32
    init(_ number: UInt32) { self.number = number }
  }

  @Test func pagedTableAgreesWithADictionaryWhilePagesComeAndGo() {
    var table = PagedTable<Thing>()
    var model: [UInt32: Thing] = [:]
    var number: UInt32 = 1
    for step in 0..<40_000 {
      // Numbers spread over 20 pages; in the second half, fewer are inserted.
      number = (number &* 48_271) % 81_919
      if let thing = model.removeValue(forKey: number) {
        #expect(table[number] === thing)
        #expect(table.remove(number) === thing)
        #expect(table.contains(number) == false)
      } else if step < 20_000 || step % 3 == 0 {
        #expect(table.contains(number) == false)
        let thing = Thing(number)
        table.insert(thing, at: number)
        model[number] = thing
      }
    }
    #expect(table.count == model.count)
    #expect(!model.isEmpty)
    for (number, thing) in model { #expect(table[number] === thing) }
    for number in model.keys { table.remove(number) }
    #expect(table.count == 0)
  }

  @Test func pagedTableReleasesItsValuesWhenItEndsAndNotBefore() {
    weak var inFirst: Thing?
    weak var inAnother: Thing?
    weak var replaced: Thing?
    do {
      var table = PagedTable<Thing>()
      let (first, another, old) = (Thing(1), Thing(20_000), Thing(5))
      (inFirst, inAnother, replaced) = (first, another, old)
      table.insert(first, at: 1)
      table.insert(another, at: 20_000)
      table.insert(old, at: 5)
      table[5] = Thing(6)
      #expect(table[5].number == 6)
      #expect(inFirst != nil && inAnother != nil)
    }
    #expect(inFirst == nil)
    #expect(inAnother == nil)
    #expect(replaced == nil)
  }
}
