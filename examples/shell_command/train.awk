# Logistic regression by stochastic gradient descent, in awk: two clouds of points in eight dimensions.
#
# awk -f train.awk -v rate=0.1 -v epochs=3 -v count=5000 -v seed=1

function normal() { return sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand()) }

function score(i,    k, sum) {
    sum = bias
    for (k = 1; k <= 8; k++) sum += weight[k] * point[i, k]
    return 1 / (1 + exp(-sum))
}

BEGIN {
    srand(seed + 1)
    for (i = 1; i <= count + 1000; i++) {
        label[i] = rand() < 0.5
        for (k = 1; k <= 8; k++) point[i, k] = normal() + (label[i] ? 0.5 : -0.5)
    }
    for (epoch = 1; epoch <= epochs; epoch++) {
        loss = 0
        for (i = 1; i <= count; i++) {
            p = score(i)
            loss -= log(label[i] ? p : 1 - p)
            error = p - label[i]
            bias -= rate * error
            for (k = 1; k <= 8; k++) weight[k] -= rate * (error * point[i, k] + decay * weight[k])
        }
        right = 0
        for (i = count + 1; i <= count + 1000; i++) right += (score(i) > 0.5) == label[i]
        printf "epoch %d: loss %.4f, accuracy %.3f\n", epoch, loss / count, right / 1000
        fflush()
    }
}
