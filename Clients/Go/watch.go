package countdownd

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is something that happened to an entity. Its name is one of those in the reference of its
// kind, or "snapshot": the state when the watch began, or "gap": events may be missing, so read the
// state. Its methods return the status of the entity; fields that the event does not have are empty.
type Event struct {
	Kind, Name, Key string
	Generation      int64
	// Seq rises across the whole daemon and across restarts.
	Seq int64
	// Cursor is where to continue after this event, on any host of a fleet: WatchOptions.Since.
	Cursor string
	Reason Reason
	Raw    Raw
}

// Position identifies the event: in a fleet it is the same on all hosts, else it is Seq.
func (event Event) Position() string {
	if position := event.Raw.text("position"); position != "" {
		return position
	}
	return strconv.FormatInt(event.Seq, 10)
}

// isState tells whether it is no event, but begins or repairs a watch.
func (event Event) isState() bool { return event.Name == "snapshot" || event.Name == "gap" }

// place is where a watch has read: a cursor of the daemon, and the newest event of each log since.
type place struct {
	cursor string
	newest map[string]string
}

func placeAt(cursor string) *place { return &place{cursor, map[string]string{}} }

func (place *place) text() string {
	text := place.cursor
	for _, position := range place.newest {
		text += "-" + position
	}
	return text
}

// stamp continues after an event.
func (place *place) stamp(event Event) Event {
	if !event.isState() {
		log, _, isShared := strings.Cut(event.Position(), ".")
		if !isShared {
			log = ""
		}
		place.newest[log] = event.Position()
	}
	event.Cursor = place.text()
	return event
}

func toEvent(channel, line string) Event {
	var raw Raw
	// The daemon writes valid JSON.
	_ = json.Unmarshal([]byte(line), &raw)
	kind, _, _ := strings.Cut(channel, ":")
	return Event{
		Kind: kind, Name: raw.text("event"), Key: raw.text("key"), Generation: raw.integer("generation"),
		Seq: raw.integer("seq"), Reason: Reason(raw.text("reason")), Raw: raw,
	}
}

// WatchOptions has the options of Watch.
type WatchOptions struct {
	// Since is the Cursor of the last event that you have, on this host or another one of its fleet:
	// the events after it come first.
	Since string
	// WithoutSnapshots leaves out the states at the beginning.
	WithoutSnapshots bool
}

// Watch has events, in order:
//
//	watch := client.Watch(ctx, countdownd.WatchOptions{}, "timer:*")
//	defer watch.Close()
//	for watch.Next() {
//		fmt.Println(watch.Event().Name)
//	}
//	return watch.Err()
//
// One goroutine reads it; any can close it.
type Watch struct {
	client   *Client
	ctx      context.Context
	cancel   context.CancelFunc
	patterns []string
	options  WatchOptions

	// Where to continue after the events that were read; nil before the daemon's first cursor.
	at      *place
	waiting []Event
	event   Event
	// What comes while it reads what it has missed; nil otherwise.
	arrived *arrived
	// Connections since the last one that lasted.
	attempt     int
	connectedAt time.Time
	hasBeenLive bool

	mutex   sync.Mutex
	one     *connection
	isEnded bool
	err     error
}

var pauses = []time.Duration{0, 0, 10, 20, 50, 100, 200, 500}

// How long a connection lasts before the pauses start over.
const lasting = time.Second

// Watch returns the events of channels such as "countdown:*", as they happen, until the context ends.
// It begins with a snapshot of each entity. If the daemon is up, it is subscribed when Watch returns. It
// waits for a daemon that is down, and connects again by
// itself. It misses nothing that the event log has; else there is a "gap".
func (client *Client) Watch(ctx context.Context, options WatchOptions, patterns ...string) *Watch {
	watch := &Watch{client: client, patterns: patterns, options: options}
	watch.ctx, watch.cancel = context.WithCancel(ctx)
	if options.Since != "" {
		watch.at = placeAt(options.Since)
	}
	if len(patterns) == 0 {
		watch.end(errors.New("countdownd: name a channel or a pattern, such as countdown:*"))
		return watch
	}
	client.mutex.Lock()
	isClosed := client.isClosed
	if !isClosed {
		client.watches[watch] = struct{}{}
	}
	client.mutex.Unlock()
	if isClosed {
		watch.end(ErrClosed)
		return watch
	}
	go func() {
		<-watch.ctx.Done()
		watch.end(ctx.Err())
	}()
	watch.try()
	return watch
}

// Next waits for an event; false once the watch has ended.
func (watch *Watch) Next() bool {
	for !watch.hasEnded() {
		if len(watch.waiting) > 0 {
			watch.event, watch.waiting = watch.waiting[0], watch.waiting[1:]
			if watch.event.Name != "snapshot" || !watch.options.WithoutSnapshots {
				return true
			}
			continue
		}
		watch.try()
	}
	return false
}

// try does one step, and notes what came of it.
func (watch *Watch) try() {
	if err := watch.step(); err != nil {
		watch.drop()
		if watch.isPermanent(err) {
			watch.end(err)
		}
	}
}

// Event returns the event that Next has waited for.
func (watch *Watch) Event() Event { return watch.event }

// Err returns why the watch has ended: the error of the context, ErrClosed if the client was closed,
// or an error of the daemon, such as ErrNotPermitted; nil after Close.
func (watch *Watch) Err() error {
	watch.mutex.Lock()
	defer watch.mutex.Unlock()
	return watch.err
}

// Close ends the watch.
func (watch *Watch) Close() { watch.end(nil) }

func (watch *Watch) end(err error) {
	watch.mutex.Lock()
	one, isFirst := watch.one, !watch.isEnded
	watch.one = nil
	if isFirst {
		watch.isEnded, watch.err = true, err
	}
	watch.mutex.Unlock()
	watch.cancel()
	if one != nil {
		watch.client.discard(one)
	}
	watch.client.mutex.Lock()
	delete(watch.client.watches, watch)
	watch.client.mutex.Unlock()
}

func (watch *Watch) hasEnded() bool {
	watch.mutex.Lock()
	defer watch.mutex.Unlock()
	return watch.isEnded
}

// isPermanent tells whether connecting again does not help.
func (watch *Watch) isPermanent(err error) bool {
	its, ok := err.(*Error)
	if !ok {
		return false
	}
	switch its.Code {
	case "DOWN", "LOADING", "UNAVAILABLE":
		return false
	case "LIMIT":
		// After a restart all clients connect at once, and some find room only later.
		return !watch.hasBeenLive
	default:
		return true
	}
}

func (watch *Watch) drop() {
	watch.mutex.Lock()
	one := watch.one
	watch.one = nil
	watch.mutex.Unlock()
	watch.arrived = nil
	if time.Since(watch.connectedAt) >= lasting {
		watch.attempt = 0
	}
	if one != nil {
		watch.client.discard(one)
	}
}

// step connects, reads a page of what was missed, or waits for an event.
func (watch *Watch) step() error {
	watch.mutex.Lock()
	one := watch.one
	watch.mutex.Unlock()
	switch {
	case one == nil:
		return watch.connect()
	case watch.arrived != nil:
		return watch.readPage(one)
	}
	value, err := one.value()
	if err != nil {
		return err
	}
	if event, ok := eventOf(value); ok {
		watch.waiting = append(watch.waiting, watch.at.stamp(event))
	}
	return nil
}

// connect connects and subscribes, after a pause that grows while connections do not last.
func (watch *Watch) connect() error {
	if watch.attempt++; watch.attempt > 1 {
		select {
		case <-watch.ctx.Done():
			return watch.ctx.Err()
		case <-time.After(pauses[min(watch.attempt, len(pauses))-1] * time.Millisecond):
		}
	}
	watch.connectedAt = time.Now()
	limit := watch.client.limit(watch.ctx)
	one, err := watch.client.connect(limit)
	if err != nil {
		return err
	}
	watch.mutex.Lock()
	isEnded := watch.isEnded
	if !isEnded {
		watch.one = one
	}
	watch.mutex.Unlock()
	if isEnded {
		watch.client.discard(one)
		return nil
	}
	return watch.subscribe(one, limit)
}

func (watch *Watch) subscribe(one *connection, limit limit) error {
	its := &arrived{}
	one.pushed = its.add
	isNew := watch.at == nil
	if isNew {
		cursor, err := ask(one, limit, "EVENTS", "CURSOR")
		if err != nil {
			return err
		}
		watch.at = placeAt(asText(cursor))
	}
	for _, pattern := range watch.patterns {
		// A channel has a snapshot even if there is no such entity.
		command := "SUBSCRIBE"
		if strings.ContainsAny(pattern, `*?[\`) {
			command = "PSUBSCRIBE"
		}
		if _, err := ask(one, limit, command, pattern); err != nil {
			return err
		}
	}
	watch.arrived = its
	if isNew {
		watch.goLive(one)
	}
	return nil
}

func ask(one *connection, limit limit, words ...string) (any, error) {
	reply, _, err := one.exchange(limit, words)
	if err != nil {
		return nil, err
	}
	return answerOf(reply)
}

// readPage reads some of what was missed.
func (watch *Watch) readPage(one *connection) error {
	before := watch.at.text()
	reply, err := ask(one, watch.client.limit(watch.ctx), "EVENTS", "SINCE", before, "SUBSCRIBED")
	if err != nil {
		return err
	}
	fields := asMap(reply)
	if !fields.truth("complete") {
		watch.waiting = append(watch.waiting, Event{Name: "gap", Cursor: before, Raw: Raw{}})
	}
	var page []Event
	for _, pair := range fields.list("events") {
		if its, ok := pair.([]any); ok && len(its) == 2 {
			page = append(page, toEvent(asText(its[0]), asText(its[1])))
		}
	}
	watch.arrived.leaveOut(page)
	watch.take(page)
	watch.at = placeAt(fields.text("cursor"))
	if !fields.truth("more") {
		watch.goLive(one)
	}
	return nil
}

func (watch *Watch) take(events []Event) {
	for _, event := range events {
		watch.waiting = append(watch.waiting, watch.at.stamp(event))
	}
}

func (watch *Watch) goLive(one *connection) {
	watch.take(watch.arrived.states)
	watch.take(watch.arrived.events)
	watch.arrived, watch.hasBeenLive = nil, true
	one.far.SetDeadline(time.Time{})
}

// arrived has what a new subscription sends while the events are read that the watch has missed.
type arrived struct{ states, events []Event }

// The most events that wait so. With more, the watch connects again and reads on.
const mostArrived = 10_000

func (arrived *arrived) add(push push) error {
	event, ok := eventOf(push)
	switch {
	case !ok:
	case event.isState():
		arrived.states = append(arrived.states, event)
	case len(arrived.events) == mostArrived:
		return errors.New("too many events came while it caught up")
	default:
		arrived.events = append(arrived.events, event)
	}
	return nil
}

// leaveOut forgets what a page of missed events has too, or something newer than.
func (arrived *arrived) leaveOut(page []Event) {
	known, newest := map[string]bool{}, map[string]int64{}
	for _, event := range page {
		known[event.Position()] = true
		newest[event.Kind+":"+event.Key] = event.Seq
	}
	both := -1
	for index, event := range arrived.events {
		if known[event.Position()] {
			both = index
		}
	}
	var states, events []Event
	for index, event := range arrived.events {
		isOld := index < both && (event.Name == "tick" || event.Name == "progress")
		if !isOld && !known[event.Position()] {
			events = append(events, event)
		}
	}
	for _, event := range arrived.states {
		if newest[event.Kind+":"+event.Key] <= event.Seq {
			states = append(states, event)
		}
	}
	arrived.states, arrived.events = states, events
}

func eventOf(value any) (Event, bool) {
	its, ok := value.(push)
	if !ok || len(its) < 3 || its[0] != "message" && its[0] != "pmessage" {
		return Event{}, false
	}
	return toEvent(asText(its[len(its)-2]), asText(its[len(its)-1])), true
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
