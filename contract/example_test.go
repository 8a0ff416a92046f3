package contract_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"hash/fnv"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
)

// example makes a value with every field set. A field's value comes from its
// place in the JSON text alone, so that a new field changes no other.
func example(as reflect.Type) any {
	v := reflect.New(as).Elem()
	fill(v, "")
	return v.Interface()
}

func fill(v reflect.Value, path string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC).Add(time.Duration(number(path)) * time.Minute)))
		return
	case admission.Duration:
		v.SetInt(int64(time.Duration(number(path)) * time.Second))
		return
	case admission.Priority:
		v.SetInt(int64(admission.High))
		return
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"of":%q}`, name))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if len(field.Index) == 1 && (field.IsExported() || field.Anonymous) {
				fill(v.FieldByIndex(field.Index), below(path, field))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(number(path))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(number(path)))
	default:
		panic(fmt.Sprintf("%s: messages hold no %s", path, v.Type()))
	}
}

// below is the path of a field; one that is embedded has no name of its own.
func below(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous && name == "":
		return path
	case name == "":
		name = field.Name
	}
	return path + "." + name
}

// number is between 1 and 120, so that it fits every integer.
func number(path string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	return int64(h.Sum32()%120) + 1
}

// zeros lists the fields that are at their zero value.
func zeros(v reflect.Value, path string) []string {
	if v.IsZero() {
		return []string{path}
	}
	var out []string
	switch v.Kind() {
	case reflect.Pointer:
		out = zeros(v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, zeros(v.Index(i), path)...)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			break
		}
		for _, field := range reflect.VisibleFields(v.Type()) {
			if len(field.Index) == 1 {
				out = append(out, zeros(v.FieldByIndex(field.Index), path+"."+field.Name)...)
			}
		}
	}
	return out
}

// sources reads the production files of a folder.
func sources(t *testing.T, dir string) (*token.FileSet, []*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NotEmpty(t, files, dir)
	return set, files
}

// exportedStructs names the struct types that a package exports, sorted.
func exportedStructs(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	_, files := sources(t, dir)
	for _, file := range files {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				spec := spec.(*ast.TypeSpec)
				if _, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
					names = append(names, spec.Name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// stringConstants gives the exported constants of a package that are text, by
// name. What the package imports is not needed for them.
func stringConstants(t *testing.T, pkg, dir string) map[string]string {
	t.Helper()
	set, files := sources(t, dir)
	lenient := types.Config{IgnoreFuncBodies: true, Error: func(error) {}}
	checked, _ := lenient.Check(pkg, set, files, nil) // complains about every import
	words := map[string]string{}
	for _, name := range checked.Scope().Names() {
		c, ok := checked.Scope().Lookup(name).(*types.Const)
		if ok && c.Exported() && c.Val().Kind() == constant.String {
			words[pkg+"."+name] = constant.StringVal(c.Val())
		}
	}
	return words
}
