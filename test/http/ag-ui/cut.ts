/** A stream that is cut after this count of bytes. */
export function cutAfter(limit: number): TransformStream<Uint8Array, Uint8Array> {
  let seen = 0;
  return new TransformStream({
    transform(chunk, controller) {
      if (seen + chunk.length <= limit) controller.enqueue(chunk);
      else {
        controller.enqueue(chunk.slice(0, limit - seen));
        controller.terminate();
      }
      seen += chunk.length;
    },
  });
}

/** A `fetch` that cuts its first responses; records the last frame id of each request. */
export function cuttingFetch(times: number, bytes: number): { fetch: typeof fetch; seen: string[] } {
  const seen: string[] = [];
  return {
    seen,
    fetch: async (to, init) => {
      const response = await fetch(to, init);
      seen.push(new Headers(init?.headers).get("last-event-id") ?? "");
      if (seen.length > times) return response;
      return new Response(response.body?.pipeThrough(cutAfter(bytes)), response);
    },
  };
}
