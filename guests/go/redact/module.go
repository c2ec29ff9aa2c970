// Replaces secrets in log requests by patterns. `peal-module.toml` says how, and declares the settings.
package main

import (
	"errors"
	"peal"
	"strconv"
)

// An instance gets its settings before any request.
var active *rules

// Init reads the settings.
func Init(config peal.Config) ([]peal.Registration, error) {
	texts := map[string]string{"known": "passwords, tokens, keys, urls", "patterns": "", "with": "(redacted)"}
	for _, info := range config {
		if _, ok := texts[info.Key]; !ok {
			return nil, errors.New("there is no setting " + strconv.Quote(info.Key) + "; there are known, patterns and with")
		}
		text, ok := peal.AsText(info.Value)
		if !ok {
			return nil, errors.New("the setting " + strconv.Quote(info.Key) + " is a text")
		}
		texts[info.Key] = text
	}
	read, err := readRules(texts["known"], texts["patterns"], texts["with"])
	active = read
	return nil, err
}

// Stop has nothing to do.
func Stop() {}

// LogPolicy replaces secrets in data and directives, and leaves the decision to others.
func LogPolicy(request *peal.Request) *peal.PolicyOutcome {
	data, inData := active.infos(request.Infos())
	directives, inDirectives := active.infos(request.Directives())
	outcome := peal.Pass()
	if inData > 0 {
		outcome.RewriteData(data)
	}
	if inDirectives > 0 {
		outcome.Amend(directives)
	}
	if inData+inDirectives > 0 {
		outcome.With("peal.redact.count", peal.Uint32(inData+inDirectives))
	}
	return outcome
}

func main() {}
