"""Stands in for Ray in a test: what `anole-eval reproduce --ray` uses of it, one task after the other.

Two threads that write and start programs hold each other's open for a moment; a cluster's workers are processes.
"""

import concurrent.futures

workers = concurrent.futures.ThreadPoolExecutor(1)


def init(address, **options):
    if address != "stand-in":
        raise ConnectionError(f"no cluster at {address}")


def remote(**options):
    def wrap(function):
        function.remote = lambda *given: workers.submit(function, *given)
        return function

    return wrap


def put(value):
    return value


def wait(futures):
    done, rest = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
    first = next(iter(done))
    return [first], [future for future in futures if future is not first]


def get(future):
    return future.result()
