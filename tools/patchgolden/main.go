// Command patchgolden runs patch cases through the libraries that a real API server uses and prints what they answer.
//
// It reads a JSON array of cases on standard input and writes the array of results; cases.py makes the cases.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"os"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// patchCase is one question. Patches give a document; field management gives a sequence of writes to one object.
type patchCase struct {
	Op         string          `json:"op"`
	APIVersion string          `json:"apiVersion,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Document   json.RawMessage `json:"document,omitempty"`
	Patch      json.RawMessage `json:"patch,omitempty"`
	Writes     []write         `json:"writes,omitempty"`
}

type write struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	Subresource string          `json:"subresource,omitempty"`
	Reset       []string        `json:"reset,omitempty"`
	Force       bool            `json:"force,omitempty"`
	Object      json.RawMessage `json:"object"`
	Live        json.RawMessage `json:"live,omitempty"`
	Answer      *answer         `json:"answer,omitempty"`
}

type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Code   int32           `json:"code,omitempty"`
	Error  string          `json:"error,omitempty"`
	Causes []string        `json:"causes,omitempty"`
}

type result struct {
	patchCase
	Answer *answer `json:"answer,omitempty"`
}

func main() {
	var cases []patchCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		log.Fatal(err)
	}
	var results []result
	for _, one := range cases {
		results = append(results, run(one))
	}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(results); err != nil {
		log.Fatal(err)
	}
}

func run(one patchCase) result {
	switch one.Op {
	case "json":
		return result{one, jsonPatch(one)}
	case "merge":
		patched, err := jsonpatch.MergePatch(one.Document, one.Patch)
		return result{one, answerOf(patched, err)}
	case "strategic":
		return result{one, strategic(one)}
	case "fields":
		for i := range one.Writes {
			manage(one, i)
		}
		return result{one, nil}
	}
	log.Fatalf("unknown op %q", one.Op)
	return result{}
}

func answerOf(document []byte, err error) *answer {
	if err == nil {
		return &answer{Result: document}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return &answer{Code: codeOf(err), Error: err.Error()}
	}
	found := &answer{Code: status.Status().Code, Error: status.Status().Message}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			found.Causes = append(found.Causes, cause.Message+": "+cause.Field)
		}
	}
	return found
}

// codeOf gives the HTTP code by which the patch handler answers an error of these libraries.
func codeOf(err error) int32 {
	switch err {
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, jsonpatch.ErrBadJSONPatch:
		return 400
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return 422
	}
	return 500
}

// jsonPatch has no answer where the library panics, as it does on nulls in lists.
func jsonPatch(one patchCase) (found *answer) {
	defer func() {
		if recover() != nil {
			found = nil
		}
	}()
	patch, err := jsonpatch.DecodePatch(one.Patch)
	if err != nil {
		return &answer{Code: 400, Error: err.Error()}
	}
	patched, err := patch.Apply(one.Document)
	if err != nil {
		return &answer{Code: 422, Error: err.Error()}
	}
	return &answer{Result: patched}
}

func (c patchCase) kind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
}

func (c patchCase) empty() runtime.Object {
	object, err := scheme.Scheme.New(c.kind())
	if err != nil {
		log.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(c.kind())
	return object
}

// strategic asks several times: the libraries walk Go maps, so that the first of several errors is chance. Such a case has
// no answer.
func strategic(one patchCase) *answer {
	var first *answer
	for range 32 {
		patched, err := strategicpatch.StrategicMergePatch(one.Document, one.Patch, one.empty())
		next := answerOf(patched, err)
		if first != nil && !reflect.DeepEqual(first, next) {
			return nil
		}
		first = next
	}
	return first
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

// manage carries out one write on what the write before it left.
func manage(one patchCase, i int) {
	step := &one.Writes[i]
	live := one.empty()
	if i > 0 {
		step.Live = one.Writes[i-1].Live
		if last := one.Writes[i-1].Answer; last.Result != nil {
			step.Live = last.Result
		}
	}
	if step.Live != nil {
		decode(step.Live, live)
	}
	var reset []fieldpath.Path
	for _, name := range step.Reset {
		reset = append(reset, fieldpath.MakePathOrDie(name))
	}
	filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(one.APIVersion): fieldpath.NewSet(reset...),
	})
	version := one.kind().GroupVersion()
	manager, err := managedfields.NewDefaultFieldManager(
		applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, noDefaults{}, scheme.Scheme, one.kind(),
		version, step.Subresource, filters)
	if err != nil {
		log.Fatal(err)
	}
	var written runtime.Object
	if step.Operation == "Update" {
		next := one.empty()
		decode(step.Object, next)
		step.Object = encode(next)
		written, err = manager.Update(live, next, step.Manager)
	} else {
		config := &unstructured.Unstructured{Object: map[string]any{}}
		decode(step.Object, &config.Object)
		written, err = manager.Apply(live, config, step.Manager, step.Force)
	}
	if err != nil {
		step.Answer = answerOf(nil, err)
		return
	}
	step.Answer = answerOf(stored(one, written), nil)
}

// stored gives the object as it would lie in storage: with a uid, in its typed form.
func stored(one patchCase, object runtime.Object) []byte {
	typed := one.empty()
	decode(encode(object), typed)
	typed.GetObjectKind().SetGroupVersionKind(one.kind())
	accessor, err := meta.Accessor(typed)
	if err != nil {
		log.Fatal(err)
	}
	accessor.SetUID(types.UID("u"))
	return encode(typed)
}

func encode(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		log.Fatal(err)
	}
	return text
}

func decode(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		log.Fatalf("%v in %s", err, text)
	}
}
