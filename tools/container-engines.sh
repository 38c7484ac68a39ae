#!/bin/bash
# container-engines.sh PLIMSOLL: the lines of docs/ranks.md for Slurm and MPI, the epilog, the Job for Kubernetes and the examples for Ray and
# Dask, really run on this machine, as far as it has them: slurmctld, slurmd, munge and openmpi-bin are Debian's packages (slurm
# needs root), kubernetes-validate, ray and dask are PyPI's (PYTHON: an interpreter that has them).  What is not run is reported with
# the reason.  The exit code is 1 if something failed, 77 if nothing could be run.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:?the program}")
python=${PYTHON:-python3}
work=$(mktemp -d /tmp/engines-XXXXXX)
ran=0 failed=0
children=()
bye() {
	for child in "${children[@]:-}"; do [ -z "$child" ] || kill "$child" 2>/dev/null; done
	wait
	rm -rf "$work"
}
trap bye EXIT
mkdir "$work/bin" "$work/local" "$work/shared"
printf '#!/bin/sh\nexec %s "$@"\n' "$program" >"$work/bin/plimsoll"
chmod +x "$work/bin/plimsoll"
export PATH=$work/bin:$PATH

not_run() { echo "not run: $1: $2"; }
has() { # NAME PROGRAM...: else it says why not
	local name=$1 each
	shift
	for each; do
		command -v "$each" >/dev/null || {
			not_run "$name" "there is no $each here"
			return 1
		}
	done
}

# Eight recordings of a job in a folder.
recordings() { # FOLDER
	mkdir -p "$1"
	for rank in 0 1 2 3 4 5 6 7; do
		"$program" pack "$top/tests/data/oom_batch.pickle.xz" -o "$1/rank$rank.plim" >/dev/null || exit 1
	done
}

# What was reduced must say of so many ranks.
check() { # NAME FOLDER COUNT
	ran=$((ran + 1))
	if "$program" report "$2" | grep -q "^$3 recordings\?: $3 died"; then
		echo "run: $1"
	else
		echo "FAILED: $1"
		"$program" report "$2" 2>&1 | head -5
		ls -R "$2"
		failed=$((failed + 1))
	fi
}

# A line of the page, with this machine's folders and what only a test needs.
line_of() { # BEGINNING
	grep "^    $1 " "$top/docs/ranks.md" | head -1 | sed "s|/local/|$work/local/|g; s|/shared/|$work/shared/|g"
}

free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_slurm() {
	local name
	name=$(hostname -s)
	dd if=/dev/urandom of="$work/munge.key" bs=1 count=128 status=none
	chmod 400 "$work/munge.key"
	mkdir -m 755 "$work/slurm" "$work/spool"
	chmod 755 "$work"
	munged --force --foreground --key-file="$work/munge.key" --socket="$work/munge.socket" --log-file="$work/munge.log" \
		--pid-file="$work/munge.pid" --seed-file="$work/munge.seed" >"$work/munged.out" 2>&1 &
	children+=($!)
	cat >"$work/slurm.conf" <<-END
		ClusterName=here
		SlurmctldHost=$name(127.0.0.1)
		SlurmctldPort=$(free_port)
		SlurmdPort=$(free_port)
		SlurmUser=root
		AuthType=auth/munge
		AuthInfo=socket=$work/munge.socket
		CredType=cred/munge
		StateSaveLocation=$work/slurm
		SlurmdSpoolDir=$work/spool
		SlurmctldPidFile=$work/slurmctld.pid
		SlurmdPidFile=$work/slurmd.pid
		SlurmctldLogFile=$work/slurmctld.log
		SlurmdLogFile=$work/slurmd.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		MpiDefault=none
		SwitchType=switch/none
		ReturnToService=2
		Epilog=$work/epilog
		NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
	printf '#!/bin/sh\nPATH=%s LOCAL=%s/epilog.local SHARED=%s/epilog.shared exec %s/examples/cluster/epilog\n' \
		"$PATH" "$work" "$work" "$top" >"$work/epilog"
	chmod +x "$work/epilog"
	export SLURM_CONF=$work/slurm.conf
	slurmctld -D -i -f "$SLURM_CONF" >"$work/slurmctld.out" 2>&1 &
	children+=($!)
	slurmd -D -f "$SLURM_CONF" >"$work/slurmd.out" 2>&1 &
	children+=($!)
	for _ in $(seq 120); do
		sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
		sleep 0.5
	done
	tail -n 5 "$work"/*.log
	return 1
}

slurm() {
	has Slurm slurmctld slurmd srun munged || return
	[ "$(id -u)" = 0 ] || {
		not_run Slurm "slurmd needs root"
		return
	}
	if ! start_slurm; then
		not_run Slurm "slurmctld and slurmd do not come up here"
		return
	fi
	# In a job, whose folders have its number; the epilog then finds its own.
	cat >"$work/job" <<-END
		#!/bin/bash
		mkdir -p $work/shared/\$SLURM_JOB_ID
		cp -r $work/ranks $work/local/\$SLURM_JOB_ID
		mkdir -p $work/epilog.local
		cp -r $work/ranks $work/epilog.local/\$SLURM_JOB_ID
		echo \$SLURM_JOB_ID >$work/job.id
		$(line_of srun)
	END
	recordings "$work/ranks"
	sbatch --wait -o "$work/job.log" "$work/job" >/dev/null || cat "$work/job.log"
	check "srun, once a node" "$work/shared/$(cat "$work/job.id")" 8
	for _ in $(seq 120); do
		[ ! -s "$work/epilog.shared/$(cat "$work/job.id")/$(hostname).digest" ] || break
		sleep 0.5
	done
	check "Slurm's epilog" "$work/epilog.shared" 8
}

mpi() {
	has MPI mpirun || return
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	recordings "$work/local/run"
	mkdir -p "$work/shared/run" "$work/shared/ranks"
	eval "$(line_of 'mpirun --map-by')"
	check "mpirun, once a node" "$work/shared/run" 8
	eval "$(line_of 'mpirun -n' | sed 's/-n [0-9]*/-n 8/; s|/shared/run|/shared/ranks|')"
	check "mpirun, once a rank" "$work/shared/ranks" 8
}

kubernetes() {
	has Kubernetes kubernetes-validate || return
	ran=$((ran + 1))
	if kubernetes-validate --strict --quiet "$top/examples/cluster/job.yaml"; then
		echo "checked by its schema: the Job for Kubernetes"
	else
		echo "FAILED: the Job for Kubernetes"
		failed=$((failed + 1))
	fi
}

mapped() { # MODULE NAME
	if ! "$python" -c "import $1" 2>/dev/null; then
		not_run "$2" "$python has no $1"
		return
	fi
	recordings "$work/$1"
	"$python" "$top/examples/cluster/with_$1.py" "$work/$1"/*.plim >"$work/$1.out" 2>&1 || tail -n 5 "$work/$1.out"
	rm -f "$work/$1"/*.plim
	check "$2" "$work/$1" 8
}

slurm
mpi
PATH=$(dirname "$(command -v "$python")"):$PATH kubernetes
mapped ray Ray
mapped dask Dask
echo "$ran run, $failed failed"
[ "$failed" = 0 ] || exit 1
[ "$ran" != 0 ] || exit 77
