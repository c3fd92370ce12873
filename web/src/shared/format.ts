/** Numbers and durations as people read them. */

const whole = new Intl.NumberFormat("en");

export const count = (value: number): string => whole.format(Math.round(value));

export const percent = (share: number, digits = 1): string => `${(share * 100).toFixed(digits)} %`;

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let rest = value;
  while (rest >= 1000 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return `${rest < 10 && unit > 0 ? rest.toFixed(1) : Math.round(rest)} ${units[unit]}`;
}

export function duration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

export const clock = (unixMilliseconds: number): string => new Date(unixMilliseconds).toLocaleTimeString();
