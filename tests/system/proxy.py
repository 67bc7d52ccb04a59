# SPDX-License-Identifier: MIT
"""proxy.py - forwards one TCP address to another over a bad connection.

    proxy.py LISTEN TO [--delay S] [--stall S] [--seed N] [--mute]

    --delay S   delay every byte by S seconds in each direction, at unchanged throughput
    --stall S   sometimes pass nothing for up to S seconds, starting after any byte, even inside a frame or pixels
    --mute      accept connections, and never send anything

It prints a line for everything it does: "listening", "accepted", "closed", "delayed", "stalling", "failed".
"""

import argparse
import asyncio
import random

CHUNK = 65536
# The largest number of bytes between stalls: requests are short, batches are long.
REQUESTS, ANSWERS = 1500, 300_000


def say(text):
    print(text, flush=True)


async def receive(reader, queue, delay):
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(CHUNK):
            await queue.put((loop.time() + delay, data))
    except OSError:
        pass
    await queue.put((0, b""))


async def send(queue, writer, args, most, what):
    loop, dice = asyncio.get_running_loop(), args.dice
    left = dice.randrange(1, most)
    said = False
    while True:
        due, data = await queue.get()
        if not data:
            break
        wait = due - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
            if not said:
                say(f"delayed {what}")
            said = True
        while args.stall and len(data) >= left:
            writer.write(data[:left])
            await writer.drain()
            data, pause = data[left:], dice.uniform(0.3, 1) * args.stall
            say(f"stalling {what} for {pause:.2f} s, {len(data)} bytes before the end of a piece")
            await asyncio.sleep(pause)
            left = dice.randrange(1, most)
        left -= len(data)
        writer.write(data)
        await writer.drain()


async def carry(reader, writer, args, most, what):
    queue = asyncio.Queue()
    receiver = asyncio.create_task(receive(reader, queue, args.delay))
    try:
        await send(queue, writer, args, most, what)
    except OSError:
        pass
    receiver.cancel()


async def serve(reader, writer, args):
    say("accepted")
    writers = [writer]
    try:
        if args.mute:
            while await reader.read(CHUNK):
                pass
        else:
            to_reader, to_writer = await asyncio.open_connection(*args.to)
            writers.append(to_writer)
            ways = [
                asyncio.create_task(carry(reader, to_writer, args, REQUESTS, "requests")),
                asyncio.create_task(carry(to_reader, writer, args, ANSWERS, "answers")),
            ]
            # When one direction has ended, the other has nothing left to send, either.
            _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in others:
                way.cancel()
    except OSError as e:
        say(f"failed: {e}")
    for w in writers:
        w.close()
    say("closed")


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("listen", type=address)
    parser.add_argument("to", type=address)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--stall", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mute", action="store_true")
    args = parser.parse_args()
    args.dice = random.Random(args.seed)
    server = await asyncio.start_server(lambda r, w: serve(r, w, args), *args.listen)
    say("listening")
    await server.serve_forever()


asyncio.run(main())
