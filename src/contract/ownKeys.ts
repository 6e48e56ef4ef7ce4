/** Ids come from outside, and may be called `constructor` or `__proto__`. */
export function own<T>(map: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

/** An assignment to `__proto__` would give the map another prototype. */
export function setOwn<T>(map: Record<string, T>, key: string, value: T): void {
  if (key !== "__proto__") map[key] = value;
  else Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
}
