"""Stands in for Ray in a test: what `anole-eval reproduce --ray` uses of it, with two processes on this machine."""

import concurrent.futures

workers = concurrent.futures.ThreadPoolExecutor(2)


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
