// Command golden decodes the request bodies of a case file as the API server of the pinned version does and writes what came
// out: the error, the strict errors, the object as JSON and its protobuf form. Run from tools/schemagen:
//
//	go run ./golden ../../tests/dra_api/data/wire_cases.json ../../tests/dra_api/data/wire_golden.json
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"log"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

type testCase struct {
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	YAML       bool   `json:"yaml,omitempty"`
	Body       string `json:"body"`
}

type result struct {
	Name   string          `json:"name"`
	Error  string          `json:"error,omitempty"`
	GVK    string          `json:"gvk,omitempty"`
	Strict []string        `json:"strict,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
	Wire   string          `json:"wire,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: golden CASES RESULT")
	}
	input, err := os.ReadFile(os.Args[1])
	check(err)
	var cases []testCase
	check(json.Unmarshal(input, &cases))
	results := make([]result, 0, len(cases))
	for _, c := range cases {
		results = append(results, run(c))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	out.WriteString("[\n")
	for i, r := range results {
		check(encoder.Encode(r))
		if i < len(results)-1 {
			out.Truncate(out.Len() - 1)
			out.WriteString(",\n")
		}
	}
	out.WriteString("]\n")
	check(os.WriteFile(os.Args[2], out.Bytes(), 0o644))
}

// run decodes one body strictly; what decodes goes through protobuf once, as everything that an API server stores.
func run(c testCase) result {
	options := jsonserializer.SerializerOptions{Yaml: c.YAML, Strict: true}
	serializer := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, options)
	gvk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
	object, actual, err := serializer.Decode([]byte(c.Body), &gvk, nil)
	out := result{Name: c.Name}
	if actual != nil {
		out.GVK = actual.String()
	}
	if err != nil && !runtime.IsStrictDecodingError(err) {
		out.Error = err.Error()
		return out
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, problem := range strict.Errors() {
			out.Strict = append(out.Strict, problem.Error())
		}
	}
	object.GetObjectKind().SetGroupVersionKind(*actual)
	wire := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var encoded, text bytes.Buffer
	check(wire.Encode(object, &encoded))
	out.Wire = hex.EncodeToString(encoded.Bytes())
	again, _, err := wire.Decode(encoded.Bytes(), nil, nil)
	check(err)
	printer := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{})
	check(printer.Encode(again, &text))
	out.Object = json.RawMessage(strings.TrimSpace(text.String()))
	return out
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
