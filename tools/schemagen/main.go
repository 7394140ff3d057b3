// Command schemagen writes the facts of the Kubernetes API types (names, wire numbers, types, list and patch markers)
// as JSON files, one an API group. It reflects over k8s.io/api at the version of go.mod. Run: go run . ../../dra_api/schema
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// kinds lists what is served or sent by clients; an empty list means every kind of the group version. List kinds are
// left out: the reader derives them.
var kinds = map[string][]string{
	"v1": {
		"Binding", "ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "PodTemplate",
		"ResourceQuota", "Secret", "Service", "ServiceAccount",
	},
	"admissionregistration.k8s.io/v1": {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	},
	"apps/v1":                         nil,
	"authentication.k8s.io/v1":        nil,
	"authorization.k8s.io/v1":         nil,
	"autoscaling/v1":                  {"Scale"},
	"batch/v1":                        nil,
	"coordination.k8s.io/v1":          {"Lease"},
	"events.k8s.io/v1":                nil,
	"policy/v1":                       nil,
	"rbac.authorization.k8s.io/v1":    nil,
	"resource.k8s.io/v1":              nil,
	"resource.k8s.io/v1alpha3":        nil,
	"resource.k8s.io/v1beta1":         nil,
	"resource.k8s.io/v1beta2":         nil,
}

// metaTypes are the kinds of meta.k8s.io/v1 and the types which readers ask for by name.
var metaTypes = []any{
	metav1.Status{}, metav1.CreateOptions{}, metav1.DeleteOptions{}, metav1.GetOptions{}, metav1.ListOptions{},
	metav1.PatchOptions{}, metav1.UpdateOptions{}, metav1.ApplyOptions{}, metav1.WatchEvent{},
	metav1.PartialObjectMetadata{}, metav1.ListMeta{}, metav1.LabelSelector{}, metav1.Condition{},
}

type file struct {
	Kinds    map[string]map[string]string `json:"kinds"`
	Messages map[string]*message          `json:"messages"`
}

type message struct {
	Atomic bool    `json:"atomic,omitempty"`
	Fields [][]any `json:"fields"`
}

type generator struct {
	files   map[string]*file
	markers markers
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: schemagen DIRECTORY")
	}
	g := &generator{files: map[string]*file{}, markers: readMarkers()}
	for gv, names := range kinds {
		groupVersion, err := schema.ParseGroupVersion(gv)
		if err != nil {
			log.Fatal(err)
		}
		for name, typ := range scheme.Scheme.KnownTypes(groupVersion) {
			own := typ.PkgPath() != reflect.TypeFor[metav1.Status]().PkgPath()
			wanted := names == nil || slices.Contains(names, name)
			if own && wanted && !strings.HasSuffix(name, "List") {
				g.kind(fileOfGroup(groupVersion.Group), gv, name, typ)
			}
		}
	}
	for _, sample := range metaTypes {
		typ := reflect.TypeOf(sample)
		if _, isKind := typ.FieldByName("TypeMeta"); isKind || typ.Name() == "WatchEvent" {
			g.kind("meta", "meta.k8s.io/v1", typ.Name(), typ)
		} else {
			g.message(typ)
		}
	}
	for name, content := range g.files {
		write(filepath.Join(os.Args[1], name+".json"), content)
	}
}

func (g *generator) kind(fileName, groupVersion, kind string, typ reflect.Type) {
	target := g.file(fileName)
	if target.Kinds[groupVersion] == nil {
		target.Kinds[groupVersion] = map[string]string{}
	}
	target.Kinds[groupVersion][kind] = g.message(typ)
}

func (g *generator) file(name string) *file {
	if g.files[name] == nil {
		g.files[name] = &file{Kinds: map[string]map[string]string{}, Messages: map[string]*message{}}
	}
	return g.files[name]
}

// fileOfGroup gives the file of an API group: its first label.
func fileOfGroup(group string) string {
	if group == "" {
		return "core"
	}
	return strings.Split(group, ".")[0]
}

// messageName is the path of the Go package below its module and the type name, such as core/v1.Pod.
func messageName(typ reflect.Type) string {
	path := typ.PkgPath()
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return rest + "." + typ.Name()
		}
	}
	log.Fatalf("no message name for %s.%s", path, typ.Name())
	return ""
}

// write puts one kind or message a line, sorted, so that a version bump reads well as a diff.
func write(path string, content *file) {
	var out bytes.Buffer
	out.WriteString("{\"kinds\":{\n")
	writeEntries(&out, content.Kinds)
	out.WriteString("},\"messages\":{\n")
	writeEntries(&out, content.Messages)
	out.WriteString("}}\n")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

func writeEntries[V any](out *bytes.Buffer, entries map[string]V) {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		text, err := json.Marshal(entries[name])
		if err != nil {
			log.Fatal(err)
		}
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(out, "%q:%s%s\n", name, text, comma)
	}
}
