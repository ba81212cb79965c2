package countdownd

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Raw has fields by name, as they came.
type Raw map[string]any

type push []any

// connection speaks RESP3: https://redis.io/docs/latest/develop/reference/protocol-spec/
type connection struct {
	far    net.Conn
	reader *bufio.Reader
	pushed func(push) error
}

func newConnection(far net.Conn) *connection {
	return &connection{far: far, reader: bufio.NewReader(far)}
}

func (one *connection) close() { one.far.Close() }

// guard sets until when a connection blocks, and ends that with the context. The result is to be
// called afterwards: from then on, nothing changes the connection.
func (one *connection) guard(limit limit) func() {
	one.far.SetDeadline(limit.deadline)
	if limit.ctx.Done() == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-limit.ctx.Done():
			one.far.SetDeadline(time.Unix(1, 0))
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

func (one *connection) write(words []string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := io.WriteString(one.far, text.String())
	return err
}

// exchange sends a command and reads its reply. A command that is not sent was not done.
func (one *connection) exchange(limit limit, words []string) (reply any, isSent bool, err error) {
	defer one.guard(limit)()
	if err := one.write(words); err != nil {
		return nil, false, err
	}
	reply, err = one.read()
	return reply, true, err
}

// read returns the next reply; an error of the daemon is an *Error among them.
func (one *connection) read() (any, error) {
	for {
		value, err := one.value()
		if err != nil {
			return nil, err
		}
		its, isPush := value.(push)
		if !isPush {
			return value, nil
		}
		if len(its) > 0 && (its[0] == "psubscribe" || its[0] == "subscribe") {
			return its, nil
		}
		if one.pushed != nil {
			if err := one.pushed(its); err != nil {
				return nil, err
			}
		}
	}
}

func (one *connection) value() (any, error) {
	line, err := one.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("not the protocol of countdownd")
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+', '(':
		return rest, nil
	case '-':
		code, text, _ := strings.Cut(rest, " ")
		return &Error{code, text, nil}, nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case ',':
		return strconv.ParseFloat(rest, 64)
	case '#':
		return rest == "t", nil
	case '_':
		return nil, nil
	}
	count, err := strconv.Atoi(rest)
	if err != nil || count < 0 {
		return nil, errors.New("not the protocol of countdownd")
	}
	switch kind {
	case '$', '=':
		bytes := make([]byte, count+2)
		if _, err := io.ReadFull(one.reader, bytes); err != nil {
			return nil, err
		}
		text := string(bytes[:count])
		if kind == '=' {
			text = text[4:]
		}
		return text, nil
	case '%':
		raw := Raw{}
		for ; count > 0; count-- {
			name, err := one.value()
			if err != nil {
				return nil, err
			}
			if raw[asText(name)], err = one.value(); err != nil {
				return nil, err
			}
		}
		return raw, nil
	}
	elements := make([]any, count)
	for index := range elements {
		if elements[index], err = one.value(); err != nil {
			return nil, err
		}
	}
	if kind == '>' {
		return push(elements), nil
	}
	return elements, nil
}

func asText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func asInteger(value any) int64 {
	switch its := value.(type) {
	case int64:
		return its
	case float64: // JSON
		return int64(its)
	}
	number, _ := strconv.ParseInt(asText(value), 10, 64)
	return number
}

func asMap(value any) Raw {
	switch its := value.(type) {
	case Raw:
		return its
	case map[string]any: // JSON
		return its
	}
	return nil
}

func asPage(reply any) (int64, []Raw) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return 0, nil
	}
	views, _ := parts[1].([]any)
	page := make([]Raw, len(views))
	for index, view := range views {
		page[index] = asMap(view)
	}
	return asInteger(parts[0]), page
}

// ofSeveral returns the fields of an answer about one entity or several, with those of the one that
// refuses, or of the first; and each view.
func ofSeveral(raw Raw) (Raw, []Raw) {
	var views []Raw
	for _, one := range raw.list("views") {
		views = append(views, asMap(one))
	}
	if len(views) == 0 {
		return raw, []Raw{raw}
	}
	its := views[0]
	for _, one := range views {
		if raw["refused_by"] != nil && one.text("key") == raw.text("refused_by") {
			its = one
		}
	}
	merged := Raw{}
	for _, fields := range []Raw{its, raw} {
		for name, value := range fields {
			merged[name] = value
		}
	}
	return merged, views
}

// text returns a text; one that is not UTF-8 comes as base64 in events.
func (raw Raw) text(name string) string {
	if raw[name] == nil {
		return string(raw.coded(name))
	}
	return asText(raw[name])
}

func (raw Raw) coded(name string) []byte {
	text, ok := raw[name+"_base64"].(string)
	if !ok {
		return nil
	}
	bytes, _ := base64.StdEncoding.DecodeString(text)
	return bytes
}

func (raw Raw) data(name string) []byte {
	if raw[name] == nil {
		return raw.coded(name)
	}
	return []byte(asText(raw[name]))
}

func (raw Raw) integer(name string) int64 { return asInteger(raw[name]) }

func (raw Raw) number(name string) float64 {
	switch its := raw[name].(type) {
	case float64:
		return its
	case int64:
		return float64(its)
	}
	return 0
}

func (raw Raw) truth(name string) bool { return raw[name] == true }

func (raw Raw) span(name string) time.Duration {
	return time.Duration(raw.integer(name)) * time.Millisecond
}

func (raw Raw) moment(name string) time.Time {
	if raw[name] == nil {
		return time.Time{}
	}
	return time.UnixMilli(raw.integer(name))
}

func (raw Raw) list(name string) []any {
	list, _ := raw[name].([]any)
	return list
}
