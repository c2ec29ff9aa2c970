package main

import (
	"errors"
	"peal"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of the patterns of an admin.
const (
	maxPatterns     = 64
	maxPatternBytes = 1024
)

// known are the patterns of each kind. Names that end in a word of passwords may have a prefix, as in DB_PASSWORD.
var known = map[string][]string{
	"passwords": {
		`(?i)[a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key)["']?\s*[=:]\s*("[^"\n]*"|'[^'\n]*'|[^\s"',;&]+)`,
	},
	"tokens": {
		`(?i)\bbearer\s+([a-z0-9._~+/=-]{8,})`,
		`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`,
		`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,
		`\bgh[pousr]_[A-Za-z0-9]{20,}`,
		`\bgithub_pat_[A-Za-z0-9_]{20,}`,
		`\bglpat-[A-Za-z0-9_-]{20,}`,
		`\bxox[abprs]-[A-Za-z0-9-]{10,}`,
	},
	"keys": {`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`},
	"urls": {`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@`},
}

// rules are the patterns, and the text in the place of a secret.
type rules struct {
	patterns    []*regexp.Regexp
	replacement string
}

// readRules compiles the known patterns of some kinds, and those of an admin, one on each line.
func readRules(kinds, patterns, replacement string) (*rules, error) {
	found := &rules{replacement: replacement}
	for _, kind := range strings.Split(kinds, ",") {
		kind = strings.TrimSpace(kind)
		if kind == "" {
			continue
		}
		texts, ok := known[kind]
		if !ok {
			return nil, errors.New(strconv.Quote(kind) + " in \"known\" is no kind of secret; there are passwords, tokens, keys and urls")
		}
		for _, text := range texts {
			found.patterns = append(found.patterns, regexp.MustCompile(text))
		}
	}
	own := 0
	for _, text := range strings.Split(patterns, "\n") {
		text = strings.TrimSuffix(text, "\r")
		if text == "" {
			continue
		}
		own++
		if own > maxPatterns || len(text) > maxPatternBytes {
			return nil, errors.New("\"patterns\" has more than " + strconv.Itoa(maxPatterns) + " lines, or one of more than " +
				strconv.Itoa(maxPatternBytes) + " bytes")
		}
		pattern, err := regexp.Compile(text)
		if err != nil {
			return nil, errors.New(strconv.Quote(text) + " in \"patterns\" is no regular expression: " + err.Error())
		}
		if pattern.MatchString("") {
			return nil, errors.New(strconv.Quote(text) + " in \"patterns\" matches the empty text, and so everything; it should match a secret")
		}
		found.patterns = append(found.patterns, pattern)
	}
	if len(found.patterns) == 0 {
		return nil, errors.New("it has nothing to do: set \"known\" or \"patterns\"")
	}
	return found, nil
}

// text replaces the secrets in a text, and returns their number.
func (rules *rules) text(text string) (string, int) {
	count := 0
	for _, pattern := range rules.patterns {
		places := pattern.FindAllStringSubmatchIndex(text, -1)
		if len(places) == 0 {
			continue
		}
		var replaced strings.Builder
		end := 0
		for _, place := range places {
			from, to := place[0], place[1]
			// A group that took no part in the match has no place.
			if len(place) > 2 && place[2] >= 0 {
				from, to = place[2], place[3]
			}
			replaced.WriteString(text[end:from])
			if text[from:to] != rules.replacement {
				count++
			}
			replaced.WriteString(rules.replacement)
			end = to
		}
		replaced.WriteString(text[end:])
		text = replaced.String()
	}
	return text, count
}

// value replaces the secrets in a value, and returns their number.
func (rules *rules) value(value peal.Value) (peal.Value, int) {
	switch v := value.(type) {
	case peal.String:
		text, count := rules.text(string(v))
		return peal.String(text), count
	case peal.Bytes:
		text, count := rules.text(string(v))
		return peal.Bytes(text), count
	case peal.Opaque:
		// A string that is not UTF-8 cannot be read.
		if v.DataType == peal.TypeString {
			return peal.String(rules.replacement), 1
		}
	case peal.Array:
		infos, count := rules.infos(v.Infos)
		values := make([]peal.Value, len(v.Values))
		for at, item := range v.Values {
			replaced, more := rules.value(item)
			values[at] = replaced
			count += more
		}
		if count > 0 {
			v.Infos, v.Values = infos, values
			return v, count
		}
	}
	return value, 0
}

// infos replaces the secrets in the values of infos, and returns their number. The given infos stay as they are.
func (rules *rules) infos(infos []peal.Info) ([]peal.Info, int) {
	replaced := make([]peal.Info, len(infos))
	count := 0
	for at, info := range infos {
		value, more := rules.value(info.Value)
		replaced[at] = peal.Info{Key: info.Key, Flags: info.Flags, Value: value}
		count += more
	}
	return replaced, count
}
