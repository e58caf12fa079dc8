# What there is to do here; each line that CI or a reader needs.
#   make demo   build, and the main job on the bundled data
#   make test   build, and the tests
#   make test-quick  the same without the slow ones; make test-full: with the widest grids
#   make test-oldest  the quick tests with the oldest NumPy, SciPy and mpmath
#   make check  lint, types, tests
#   make san    the tests of the C code under AddressSanitizer and UBSan
#   make clang  those of its SIMD levels, the C code compiled by clang
#   make tsan   threads on shared data under ThreadSanitizer
#   make fuzz   libFuzzer on the C kernels, FUZZ_SECONDS each
#   make dist   sdist, a wheel from it, and quick tests of what may differ in it
#   make sdist, wheels, sbom  what is published, in wheelhouse: docs/release.md
#   make docs   the documentation as a site, in build/docs
#   make mutants  mistakes put into the code, and which tests notice (an hour or two)
#   make bench  the performance table (python -m benchmarks)
#
# All of it happens in .venv, made from PYTHON.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(wildcard csrc/*) dptopk/_core.pyx dptopk/_core.pxd setup.py pyproject.toml
# Where the distribution leaves out ensurepip, the venv gets no pip of its own
# and the one of PYTHON installs into it.
# $(call install,WHAT[,VENV])
install = venv=$(or $(strip $(2)),.venv); if [ -x $$venv/bin/pip ]; then $$venv/bin/python -m pip install -q $(1); \
	else $(PYTHON) -m pip --python $$venv/bin/python install -q $(1); fi

# Kernels against their references, at every SIMD level; and the other tests of the C code.
LEVEL_TESTS := $(addprefix tests/test_,argtopk.py draw.py draw_sieve.py race.py rows.py paths.py \
	joint.py canonical.py)
C_TESTS := $(LEVEL_TESTS) $(addprefix tests/test_,topk.py rng.py survey.py discrete.py sparse_vector.py)
# What may differ in a wheel: kernels, doors, what is kept in files, the command line. Its modules
# are those of the checkout, byte for byte (tests/test_release.py): other tests would repeat.
WHEEL_TESTS := argtopk topk race rows draw draw_sieve survey paths joint canonical rng discrete \
	sparse_vector peel noisy_topk table mechanisms histogram groups session filter ledger cli files doors bounds \
	builder sql plotting report

.PHONY: demo test test-quick test-full test-oldest check lint san tsan fuzz clang dist sdist wheels \
	sbom docs mutants bench clean

demo: .venv/run
	$(BIN)/dptopk select examples/debian12_sections.parquet --user package --item dependency \
		-k 10 --epsilon 1 --delta 1e-6

test: .venv/test
	$(BIN)/python -m pytest

test-quick: .venv/test
	$(BIN)/python -m pytest -m "not slow and not full"

test-full: .venv/full
	$(BIN)/python -m pytest -m "full or not full" $(TESTS_LEFT_OUT:%=--ignore=%)

# The quick tests with the oldest NumPy, SciPy and mpmath that pyproject.toml allows.
test-oldest:
	$(PYTHON) -m venv build/oldest || $(PYTHON) -m venv --clear --without-pip build/oldest
	$(call install,'.[files]' pytest pytest-xdist hypothesis pandas pyarrow polars -c tests/oldest.txt,\
		build/oldest)
	cd build/oldest && bin/python -m pytest -p no:cacheprovider -m "not slow and not full" ../../tests

check: lint test

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -m full tests/test_typing.py
	$(BIN)/stubtest dptopk._core --mypy-config-file pyproject.toml --ignore-disjoint-bases \
		--allowlist tests/typing/stubtest.txt --concise
	$(CC) -std=c11 -O2 -Wall -Wextra -Wshadow -Werror -fsyntax-only csrc/*.c

# The sanitised extension stands in a copy of the package that goes first on the path.
san: .venv/dev
	DPTOPK_SANITIZE=address,undefined $(BIN)/python setup.py -q build \
		--build-base build/san-work --build-lib build/san
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/san \
		$(BIN)/pytest -p no:cacheprovider $(C_TESTS)

# Likewise, by another compiler: CLANG may name any.
CLANG ?= clang
clang: .venv/dev
	$(CLANG) -std=c11 -O2 -Wall -Wextra -Wshadow -Werror -fsyntax-only csrc/*.c
	CC=$(CLANG) $(BIN)/python setup.py -q build --build-base build/clang-work --build-lib build/clang
	PYTHONPATH=build/clang $(BIN)/pytest -p no:cacheprovider $(LEVEL_TESTS)

# Threads under ThreadSanitizer: the kernels, the extension, and a broken twin of that in which
# threads write to the library's only global as if they were alone. Python is not instrumented.
TSAN = $$(setarch -R true 2>/dev/null && echo setarch -R) env \
	LD_PRELOAD="$$($(CC) -print-file-name=libtsan.so)" TSAN_OPTIONS=ignore_noninstrumented_modules=1
tsan: .venv/dev
	$(BIN)/python -m pytest -n 0 -m full tests/test_threads.py
	DPTOPK_SANITIZE=thread $(BIN)/python setup.py -q build \
		--build-base build/tsan-work --build-lib build/tsan
	$(TSAN) PYTHONPATH=build/tsan $(BIN)/python tests/threads/extension.py
	rm -rf build/tsan-twin && cp -r build/tsan build/tsan-twin
	sed -e 's/__atomic_store_n(&(x), (value), __ATOMIC_RELAXED)/((x) = (value))/' \
		-e 's/if (current == UNSET)/if (1)/' csrc/simd.c >build/tsan-work/simd.c
	$(CC) -std=c11 -O1 -g -fPIC -fsanitize=thread -Icsrc -shared build/tsan-work/simd.c \
		$$(find build/tsan-work -name '*.o' ! -name simd.o) -lm -o build/tsan-twin/dptopk/_core.*.so
	if $(TSAN) PYTHONPATH=build/tsan-twin $(BIN)/python tests/threads/extension.py \
		2>build/tsan-work/twin.log; then echo "the broken twin passed" >&2; exit 1; fi
	grep -q "ThreadSanitizer: data race" build/tsan-work/twin.log

# Each file of fuzz/ is a target. Inputs that were found stay in FUZZ_IN, and the next run goes on
# from them; those of fuzz/corpora are where all begin. TWIN: a changed copy of a kernel.
FUZZ_SECONDS ?= 60
FUZZ_IN ?= build/fuzz
TWIN ?=
FUZZ_TARGETS := $(patsubst fuzz/%.c,%,$(wildcard fuzz/*.c))
FUZZ_CC = $(CLANG) -std=c11 -g -O1 -ffp-contract=off -fno-sanitize-recover=all -Icsrc -Ifuzz
fuzz: $(FUZZ_TARGETS:%=$(FUZZ_IN)/%.run)
	for target in $(FUZZ_TARGETS); do \
		mkdir -p $(FUZZ_IN)/$$target && \
		$(FUZZ_IN)/$$target.run -max_len=400 -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=$(FUZZ_IN)/ $(FUZZ_IN)/$$target fuzz/corpora/$$target || exit 1; \
	done

$(FUZZ_IN)/%.o: csrc/%.c $(wildcard csrc/*.h)
	mkdir -p $(FUZZ_IN)
	$(FUZZ_CC) -fsanitize=fuzzer-no-link,address,undefined -c $< -o $@

$(FUZZ_IN)/kernels.a: $(patsubst csrc/%.c,$(FUZZ_IN)/%.o,$(wildcard csrc/*.c))
	rm -f $@
	ar rcs $@ $^

$(FUZZ_IN)/%.run: fuzz/%.c fuzz/fuzz.h fuzz/naive.h $(FUZZ_IN)/kernels.a
	$(FUZZ_CC) -fsanitize=fuzzer,address,undefined $< $(TWIN) $(FUZZ_IN)/kernels.a -lm -o $@

dist: .venv/dev
	rm -rf dist build/fresh
	$(BIN)/python -m build -q --no-isolation
	$(PYTHON) -m venv build/fresh || $(PYTHON) -m venv --clear --without-pip build/fresh
	$(call install,"$$(ls dist/*.whl)[test]",build/fresh)
	cd build/fresh && bin/dptopk select ../../examples/debian12_sections.parquet \
		--user package --item dependency -k 10 --epsilon 1 --delta 1e-6
	cd build/fresh && bin/pytest -p no:cacheprovider -m "not slow and not full" \
		$(WHEEL_TESTS:%=../../tests/test_%.py)

# Of one commit the same bytes: docs/release.md.
sdist wheels sbom: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || \
	echo 315532800)
sdist: .venv/release
	$(BIN)/python -m build -q --sdist -o wheelhouse

wheels: .venv/release
	rm -rf build/wheels
	$(BIN)/python -m build -q -o build/wheels
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair -w wheelhouse build/wheels/*.whl
	cp build/wheels/*.tar.gz wheelhouse

# What an installed wheel brings along, as a bill of materials; not where it was built.
sbom: .venv/release
	$(PYTHON) -m venv --clear --without-pip build/bill
	$(call install,.,build/bill)
	rm -f build/bill/lib/python*/site-packages/dptopk-*.dist-info/direct_url.json
	mkdir -p wheelhouse
	$(BIN)/cyclonedx-py environment build/bill/bin/python --pyproject pyproject.toml \
		--output-reproducible -o wheelhouse/dptopk.cdx.json

# A link to a page that is not there, or a docstring that is not numpydoc, is an error.
docs: .venv/docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site -b html docs build/docs

# What was done before is kept, in build/mutants: it goes on from there.
mutants: .venv/dev
	nice $(BIN)/python -m benchmarks.mutants --number 320 --seed 1
	nice $(BIN)/python -m benchmarks.mutants --number 320 --seed 1 --again

bench: .venv/bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist wheelhouse *.egg-info dptopk/_core.c dptopk/*.so

.venv/made:
	$(PYTHON) -m venv .venv || $(PYTHON) -m venv --clear --without-pip .venv
	touch $@

# Installed in place (editable), so that one build serves the sources as they are.
.venv/run: .venv/made $(SOURCES)
	$(call install,-e '.[files]')
	touch $@

# The rest only adds what the extra needs: what is installed is not built once more.
.venv/test .venv/docs .venv/bench .venv/release: .venv/run
	$(call install,'dptopk[$(@F)]')
	touch $@

.venv/full .venv/dev: .venv/test
	$(call install,'dptopk[$(@F)]')
	touch $@
